// SPDX-License-Identifier: MIT OR Apache-2.0
import perftax.tag.Marks;

/** The same as mark.c, in Java. */
final class Mark {
    private static final int MARKS = 100000;
    private static final int BLOCKS = 20;
    private static final int WARM = 10;
    private static long sink;

    private static long bare() {
        long from = System.nanoTime();
        for (long i = 1; i <= MARKS; i++) {
            sink ^= i;
        }
        return System.nanoTime() - from;
    }

    private static long marked() {
        long from = System.nanoTime();
        for (long i = 1; i <= MARKS; i++) {
            sink ^= i;
            Marks.begin(i);
        }
        return System.nanoTime() - from;
    }

    public static void main(String[] arguments) {
        if (Marks.problem() != null) {
            throw new IllegalStateException(Marks.problem());
        }
        for (int block = -WARM; block < BLOCKS; block++) {
            long bare = bare();
            long marked = marked();
            if (block >= 0) {
                System.out.printf("%.3f%n", (double) (marked - bare) / MARKS);
            }
        }
    }
}
