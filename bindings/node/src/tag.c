/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Marks for Node, by Node-API 8 (Node 18 and later): perftax_tag.h. */
#define NAPI_VERSION 8
#include <node_api.h>

#include "perftax_tag.h"

/* A number, or a BigInt; 0 and an exception where it is neither, or none that a message has. */
static uint64_t number_of(napi_env env, napi_value value)
{
    int64_t small = 0;
    uint64_t large = 0;
    bool lossless = true;
    bool is_number = napi_get_value_int64(env, value, &small) == napi_ok;

    if (is_number ? small >= 0 : napi_get_value_bigint_uint64(env, value, &large, &lossless) == napi_ok && lossless)
        return is_number ? (uint64_t)small : large;
    napi_throw_type_error(env, 0, "a message is a number or a BigInt, from 0 on, below 2**62");
    return 0;
}

static int has_thrown(napi_env env)
{
    bool is_pending = false;

    return napi_is_exception_pending(env, &is_pending) == napi_ok && is_pending;
}

/* A message; 0 and an exception where it is none. */
static uint64_t message_of(napi_env env, napi_value value)
{
    uint64_t id = number_of(env, value);

    if (!(id >> 62))
        return id;
    napi_throw_range_error(env, 0, "a message's number is below 2**62");
    return 0;
}

#define ARGUMENTS(count)                                                                   \
    napi_value arguments[count];                                                           \
    size_t given = (count);                                                                \
    napi_get_cb_info(env, info, &given, arguments, 0, 0)

/* A function that says something of one message; nothing where an exception was thrown. */
#define OF_A_MESSAGE(called, says)                                                         \
    static napi_value called(napi_env env, napi_callback_info info)                        \
    {                                                                                      \
        ARGUMENTS(1);                                                                      \
        uint64_t id = message_of(env, arguments[0]);                                       \
                                                                                           \
        if (id)                                                                            \
            says(id);                                                                      \
        return 0;                                                                          \
    }

OF_A_MESSAGE(begin, perftax_begin)
OF_A_MESSAGE(end, perftax_end)

static napi_value turn(napi_env env, napi_callback_info info)
{
    ARGUMENTS(1);
    uint64_t id = message_of(env, arguments[0]);

    if (!has_thrown(env))
        perftax_switch(id);
    return 0;
}

OF_A_MESSAGE(send_to, perftax_send)
OF_A_MESSAGE(receive_from, perftax_receive)

static napi_value child(napi_env env, napi_callback_info info)
{
    ARGUMENTS(2);
    uint64_t id = message_of(env, arguments[0]), parent = id ? message_of(env, arguments[1]) : 0;

    if (id && !has_thrown(env))
        perftax_child(id, parent);
    return 0;
}

static napi_value name(napi_env env, napi_callback_info info)
{
    char text[PERFTAX_NAME_LONGEST + 1];
    size_t bytes = 0;

    ARGUMENTS(2);
    if (napi_get_value_string_utf8(env, arguments[1], text, sizeof text, &bytes) != napi_ok) {
        napi_throw_type_error(env, 0, "a message's name is a string");
        return 0;
    }
    perftax_name_of(message_of(env, arguments[0]), text, bytes);
    return 0;
}

/* identity(id, high, low, span): BigInts. */
static napi_value identity(napi_env env, napi_callback_info info)
{
    ARGUMENTS(4);
    perftax_identity(message_of(env, arguments[0]), number_of(env, arguments[1]), number_of(env, arguments[2]),
                     number_of(env, arguments[3]));
    return 0;
}

static napi_value new_id(napi_env env, napi_callback_info info)
{
    napi_value id;

    (void)info;
    napi_create_double(env, (double)perftax_new_id(), &id);
    return id;
}

static napi_value is_listened(napi_env env, napi_callback_info info)
{
    napi_value listened;

    (void)info;
    napi_get_boolean(env, perftax_tag_listened() != 0, &listened);
    return listened;
}

static void define(napi_env env, napi_value exports, const char *called, napi_callback what)
{
    napi_value function;

    if (napi_create_function(env, called, NAPI_AUTO_LENGTH, what, 0, &function) == napi_ok)
        napi_set_named_property(env, exports, called, function);
}

NAPI_MODULE_INIT()
{
    napi_value state, count;

    define(env, exports, "begin", begin);
    define(env, exports, "end", end);
    define(env, exports, "switch", turn);
    define(env, exports, "send", send_to);
    define(env, exports, "receive", receive_from);
    define(env, exports, "child", child);
    define(env, exports, "name", name);
    define(env, exports, "identity", identity);
    define(env, exports, "newId", new_id);
    define(env, exports, "isListened", is_listened);
    perftax_tag_listened();
    /* Whether somebody listens, for a look without a call; where there cannot be such an array each mark is a call. */
    if (napi_create_external_arraybuffer(env, &perftax_tag_state, sizeof perftax_tag_state, 0, 0, &state) == napi_ok &&
        napi_create_typedarray(env, napi_uint32_array, 1, state, 0, &count) == napi_ok)
        napi_set_named_property(env, exports, "state", count);
    return exports;
}
