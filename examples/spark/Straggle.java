// SPDX-License-Identifier: MIT OR Apache-2.0

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF2;

/** A function of a query's that makes a task in a hundred slow where it is asked to, by its partition: in turn by the collector, a disk, and more work than the others have. */
public final class Straggle implements UDF2<Long, Boolean, Long> {
    private static final int EVERY = 100;
    private static final long SLOW_NS = 300_000_000;
    /** Of a task like most. */
    private static final int ROUNDS = 400_000;

    @Override
    public Long call(Long value, Boolean straggles) throws IOException {
        int partition = TaskContext.getPartitionId();
        if (straggles && partition % EVERY == EVERY / 2) {
            switch (partition / EVERY % 3) {
                case 0 -> collect();
                case 1 -> writeThrough();
                default -> value += compute(400L * ROUNDS);
            }
        }
        return compute(ROUNDS) + value;
    }

    /** The same work each time, however long that takes. */
    private static long compute(long rounds) {
        long sum = 0;
        for (long i = 0; i < rounds; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        return sum;
    }

    private static void collect() {
        for (long until = System.nanoTime() + SLOW_NS; System.nanoTime() < until; ) {
            System.gc();
        }
    }

    private static void writeThrough() throws IOException {
        File file = File.createTempFile("straggle", "");
        try (FileOutputStream out = new FileOutputStream(file)) {
            byte[] block = new byte[1 << 16];
            for (long until = System.nanoTime() + SLOW_NS; System.nanoTime() < until; ) {
                out.write(block);
                out.getFD().sync();
            }
        } finally {
            file.delete();
        }
    }
}
