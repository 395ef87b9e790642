// SPDX-License-Identifier: MIT OR Apache-2.0
package perftax.spark;

import perftax.tag.Marks;

/**
 * Numbers of stages and jobs, the same in the driver and in all executors of an application. Beyond 2^53, where task attempts' own numbers end ({@link Marks#newId}), in steps that a double still holds.
 */
final class Messages {
    private static final long STAGES = 1L << 53;
    private static final long JOBS = 1L << 54;
    private static final int STEP = 1024;

    private Messages() {}

    /** An attempt of a stage. */
    static long stage(int stage, int attempt) {
        return STAGES + ((long) (stage & 0xffffff) << 8 | attempt & 0xff) * STEP;
    }

    /** A job. */
    static long job(int job) {
        return JOBS + (long) job * STEP;
    }
}
