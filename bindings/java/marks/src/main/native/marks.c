/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The native side of perftax.tag.Marks: perftax_tag.h. */
#include <jni.h>

#include "perftax_tag.h"

JNIEXPORT jobject JNICALL Java_perftax_tag_Marks_state(JNIEnv *env, jclass marks)
{
    (void)marks;
    perftax_tag_listened();
    return (*env)->NewDirectByteBuffer(env, &perftax_tag_state, sizeof perftax_tag_state);
}

JNIEXPORT void JNICALL Java_perftax_tag_Marks_mark(JNIEnv *env, jclass marks, jlong id, jint kind)
{
    (void)env;
    (void)marks;
    perftax_tag_mark((uint64_t)id, (uint32_t)kind);
}

JNIEXPORT void JNICALL Java_perftax_tag_Marks_say(JNIEnv *env, jclass marks, jint what, jlong id, jlong other, jlong high, jlong low,
                                                  jbyteArray text)
{
    uint64_t words[4] = { (uint64_t)id, (uint64_t)other, (uint64_t)high, (uint64_t)low };
    char bytes[PERFTAX_NAME_LONGEST];
    jsize length = text ? (*env)->GetArrayLength(env, text) : 0;

    (void)marks;
    if (length > (jsize)sizeof bytes)
        length = sizeof bytes;
    if (text)
        (*env)->GetByteArrayRegion(env, text, 0, length, (jbyte *)bytes);
    perftax_tag_says((uint32_t)what, words, what == PERFTAX_SAYS_IDENTITY ? 2 : 1, bytes, (uint32_t)length);
}

JNIEXPORT jlong JNICALL Java_perftax_tag_Marks_newNumber(JNIEnv *env, jclass marks)
{
    (void)env;
    (void)marks;
    return (jlong)perftax_new_id();
}
