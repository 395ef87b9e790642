/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Marks for Python: perftax_tag.h, and messages that follow contexts (contextvars).
 *
 * While contexts are followed (follow() of the package), a context variable holds the messages that the context is at: a list of the last
 * one and of the list of those before it, or nothing. Contexts are copied, and may outlive a message: one that is over is 0. Whoever runs something in a context says which message the thread is at by that.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "perftax_tag.h"

static PyObject *messages;       /* the context variable */
static PyObject *name_context;   /* "_context" */
static PyObject *name_get;       /* "get" */
static PyObject *original_run;   /* asyncio's Handle._run */
static int follows;

static int is_off(void)
{
    return __atomic_load_n(&perftax_tag_state, __ATOMIC_RELAXED) == 1;
}

/* A message's number; 0 and an exception where it is none. */
static uint64_t number(PyObject *value, int *is_wrong)
{
    uint64_t id = PyLong_AsUnsignedLongLong(value);

    *is_wrong = (id == (uint64_t)-1 && PyErr_Occurred()) || id >> 62;
    if (*is_wrong && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a message's number is below 2**62");
    return id;
}

/* What the current context is at, a list, or None; NULL with an exception. A new reference. */
static PyObject *current(void)
{
    PyObject *value = 0;

    if (PyContextVar_Get(messages, Py_None, &value) < 0)
        return 0;
    return value;
}

/* The last one that is not over; borrowed. What is no such list ends it. */
static PyObject *under_way(PyObject *at)
{
    while (PyList_Check(at) && PyList_GET_SIZE(at) == 2 && !PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(at, 0)))
        at = PyList_GET_ITEM(at, 1);
    return at;
}

/* The last message of a list; 0 of None. */
static uint64_t last_of(PyObject *at)
{
    at = under_way(at);
    return PyList_Check(at) && PyList_GET_SIZE(at) == 2 ? PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(at, 0)) : 0;
}

static PyObject *with(PyObject *id, PyObject *before)
{
    PyObject *at = PyList_New(2);

    if (at) {
        PyList_SET_ITEM(at, 0, Py_NewRef(id));
        PyList_SET_ITEM(at, 1, Py_NewRef(before));
    }
    return at;
}

static int set_current(PyObject *at)
{
    PyObject *token = PyContextVar_Set(messages, at);

    Py_XDECREF(token);
    return token ? 0 : -1;
}

static PyObject *tag_begin(PyObject *module, PyObject *value)
{
    int is_wrong;
    uint64_t id;

    (void)module;
    if (is_off())
        Py_RETURN_NONE;
    id = number(value, &is_wrong);
    if (is_wrong)
        return 0;
    if (follows) {
        PyObject *before = current(), *at;
        int failed;

        if (!before)
            return 0;
        at = with(value, under_way(before));
        Py_DECREF(before);
        failed = !at || set_current(at) < 0;
        Py_XDECREF(at);
        if (failed)
            return 0;
    }
    perftax_begin(id);
    Py_RETURN_NONE;
}

static PyObject *tag_end(PyObject *module, PyObject *value)
{
    int is_wrong;
    uint64_t id, outer = 0;

    (void)module;
    if (is_off() && !follows)
        Py_RETURN_NONE;
    id = number(value, &is_wrong);
    if (is_wrong)
        return 0;
    if (follows) {
        PyObject *at = current();

        if (!at)
            return 0;
        if (id && last_of(at) == id) {
            PyObject *own = Py_NewRef(under_way(at)), *before = Py_NewRef(PyList_GET_ITEM(own, 1)), *none = PyLong_FromLong(0);
            int failed = !none || PyList_SetItem(own, 0, none) < 0 || set_current(before) < 0;

            outer = last_of(before);
            Py_DECREF(before);
            Py_DECREF(own);
            if (failed) {
                Py_DECREF(at);
                return 0;
            }
        }
        Py_DECREF(at);
    }
    perftax_end(id);
    /* It was switched to alone, perhaps, since it began. */
    if (outer)
        perftax_switch(outer);
    Py_RETURN_NONE;
}

static PyObject *tag_switch(PyObject *module, PyObject *value)
{
    int is_wrong;
    uint64_t id;

    (void)module;
    if (is_off())
        Py_RETURN_NONE;
    id = number(value, &is_wrong);
    if (is_wrong)
        return 0;
    if (follows) {
        PyObject *at = id ? with(value, Py_None) : Py_NewRef(Py_None);
        int failed = !at || set_current(at) < 0;

        Py_XDECREF(at);
        if (failed)
            return 0;
    }
    perftax_switch(id);
    Py_RETURN_NONE;
}

static PyObject *of_message(PyObject *value, void (*says)(uint64_t))
{
    int is_wrong;
    uint64_t id = number(value, &is_wrong);

    if (is_wrong)
        return 0;
    says(id);
    Py_RETURN_NONE;
}

static PyObject *tag_send(PyObject *module, PyObject *value)
{
    (void)module;
    return of_message(value, perftax_send);
}

static PyObject *tag_receive(PyObject *module, PyObject *value)
{
    (void)module;
    return of_message(value, perftax_receive);
}

static PyObject *tag_child(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int is_wrong;
    uint64_t id, parent;

    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "child(id, parent)");
        return 0;
    }
    id = number(args[0], &is_wrong);
    if (is_wrong)
        return 0;
    parent = number(args[1], &is_wrong);
    if (is_wrong)
        return 0;
    perftax_child(id, parent);
    Py_RETURN_NONE;
}

static PyObject *tag_name(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int is_wrong;
    uint64_t id;
    const char *text;
    PyObject *spelled;
    Py_ssize_t bytes;

    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "name(id, text)");
        return 0;
    }
    if (is_off())
        Py_RETURN_NONE;
    id = number(args[0], &is_wrong);
    if (is_wrong)
        return 0;
    text = PyUnicode_Check(args[1]) ? PyUnicode_AsUTF8AndSize(args[1], &bytes) : 0;
    if (text) {
        perftax_name_of(id, text, (size_t)bytes);
        Py_RETURN_NONE;
    }
    /* A name that cannot be written (a path with odd bytes), or is no text, is no reason to fail while somebody listens. */
    PyErr_Clear();
    spelled = PyObject_ASCII(args[1]);
    text = spelled ? PyUnicode_AsUTF8AndSize(spelled, &bytes) : 0;
    if (text)
        perftax_name_of(id, text, (size_t)bytes);
    Py_XDECREF(spelled);
    if (!text)
        return 0;
    Py_RETURN_NONE;
}

/* identity(id, trace, span): of so many bits that they are integers. */
static PyObject *tag_identity(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int is_wrong;
    uint64_t id, low, high, span;
    PyObject *shift, *upper;

    (void)module;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "identity(id, trace, span)");
        return 0;
    }
    id = number(args[0], &is_wrong);
    if (is_wrong)
        return 0;
    if (!PyLong_Check(args[1]) || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "trace and span are integers of 128 and 64 bits");
        return 0;
    }
    low = PyLong_AsUnsignedLongLongMask(args[1]);
    shift = PyLong_FromLong(64);
    upper = shift ? PyNumber_Rshift(args[1], shift) : 0;
    Py_XDECREF(shift);
    if (!upper)
        return 0;
    high = PyLong_AsUnsignedLongLong(upper);
    Py_DECREF(upper);
    if (high == (uint64_t)-1 && PyErr_Occurred())
        return 0;
    span = PyLong_AsUnsignedLongLong(args[2]);
    if (span == (uint64_t)-1 && PyErr_Occurred())
        return 0;
    perftax_identity(id, high, low, span);
    Py_RETURN_NONE;
}

static PyObject *tag_new_id(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyLong_FromUnsignedLongLong(perftax_new_id());
}

static PyObject *tag_is_listened(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    return PyBool_FromLong(perftax_tag_listened() != 0);
}

/* Handle._run: what a loop calls in a context. */
static PyObject *run_handle(PyObject *module, PyObject *handle)
{
    PyObject *context, *at, *outer, *result, *kind, *value, *trace;

    (void)module;
    if (is_off())
        return PyObject_CallOneArg(original_run, handle);
    context = PyObject_GetAttr(handle, name_context);
    at = context ? PyObject_CallMethodOneArg(context, name_get, messages) : 0;
    Py_XDECREF(context);
    outer = at ? current() : 0;
    if (!outer) {
        Py_XDECREF(at);
        return 0;
    }
    if (last_of(at))
        perftax_switch(last_of(at));
    Py_DECREF(at);
    result = PyObject_CallOneArg(original_run, handle);
    PyErr_Fetch(&kind, &value, &trace);
    /* Whatever it has come to meanwhile, the thread is at what it was at before. */
    perftax_switch(last_of(outer));
    Py_DECREF(outer);
    PyErr_Restore(kind, value, trace);
    return result;
}

static PyMethodDef run_method = { "_run", run_handle, METH_O, "Handle._run, with the message that the handle's context is at." };

/* follow_handles(original): messages follow contexts from now on; returns what is to stand in for asyncio's Handle._run. */
static PyObject *tag_follow_handles(PyObject *module, PyObject *original)
{
    PyObject *function, *method;

    (void)module;
    Py_XDECREF(original_run);
    original_run = Py_NewRef(original);
    follows = 1;
    function = PyCFunction_New(&run_method, 0);
    method = function ? PyInstanceMethod_New(function) : 0;
    Py_XDECREF(function);
    return method;
}

static PyMethodDef methods[] = {
    { "begin", tag_begin, METH_O, "begin(id): the thread starts to work on message id, a number below 2**62 but 0." },
    { "end", tag_end, METH_O, "end(id): message id is done." },
    { "switch", tag_switch, METH_O, "switch(id): the thread goes on with message id, which has begun already; 0: with none." },
    { "send", tag_send, METH_O, "send(id): message id goes to another process." },
    { "receive", tag_receive, METH_O, "receive(id): message id has come from another process." },
    { "child", (PyCFunction)(void (*)(void))tag_child, METH_FASTCALL, "child(id, parent): message id is part of message parent." },
    { "name", (PyCFunction)(void (*)(void))tag_name, METH_FASTCALL, "name(id, text): what message id is called; 1024 bytes are kept." },
    { "identity", (PyCFunction)(void (*)(void))tag_identity, METH_FASTCALL,
      "identity(id, trace, span): what others call it, a trace of 128 bits and a span of 64." },
    { "new_id", tag_new_id, METH_NOARGS, "new_id(): a number that no other process of this PID namespace gives a message meanwhile." },
    { "is_listened", tag_is_listened, METH_NOARGS, "is_listened(): whether somebody listens." },
    { "_follow_handles", tag_follow_handles, METH_O, "Messages follow contexts." },
    { 0, 0, 0, 0 },
};

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, "perftax_tag._tag", "Marks for perftax trace.", -1, methods, 0, 0, 0, 0 };

PyMODINIT_FUNC PyInit__tag(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (!module)
        return 0;
    messages = PyContextVar_New("perftax_messages", 0);
    name_context = PyUnicode_InternFromString("_context");
    name_get = PyUnicode_InternFromString("get");
    if (!messages || !name_context || !name_get || PyModule_AddObjectRef(module, "_messages", messages) < 0) {
        Py_DECREF(module);
        return 0;
    }
    return module;
}
