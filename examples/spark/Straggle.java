// SPDX-License-Identifier: MIT OR Apache-2.0

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.api.java.UDF1;

/** A function of a query's that makes a task in a hundred slow, by its partition: in turn by the collector, a disk, a busy neighbour, and more work than the others have. */
public final class Straggle implements UDF1<Long, Long> {
    private static final int EVERY = 100;
    private static final long SLOW_NS = 300_000_000;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    @Override
    public Long call(Long value) throws IOException, InterruptedException {
        int partition = TaskContext.getPartitionId();
        if (partition % EVERY == EVERY / 2) {
            switch (partition / EVERY % 4) {
                case 0 -> collect();
                case 1 -> writeThrough();
                case 2 -> besideANeighbour();
                default -> compute(SLOW_NS);
            }
        }
        return compute(200_000) + value;
    }

    /** So much CPU time, however long that takes. */
    private static long compute(long ns) {
        long sum = 0;
        for (long until = THREADS.getCurrentThreadCpuTime() + ns; THREADS.getCurrentThreadCpuTime() < until; ) {
            for (int i = 0; i < 100_000; i++) {
                sum = sum * 31 + i;
            }
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

    /** One for each processor, with a real-time priority, while a little is computed. */
    private static void besideANeighbour() throws IOException, InterruptedException {
        String neighbours = "for i in $(seq $(nproc)); do chrt -f 1 timeout 0.9 sh -c 'while :; do :; done' & done; wait";
        new ProcessBuilder("sh", "-c", neighbours).start();
        // They take a moment to begin.
        Thread.sleep(60);
        compute(SLOW_NS / 6);
    }
}
