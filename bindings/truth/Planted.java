// SPDX-License-Identifier: MIT OR Apache-2.0

import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.LockSupport;
import perftax.tag.Marks;

/**
 * Planted EACH SEED FILE HOG: as planted.py, in Java: a thread handles what another one hands to it; {@code gc} is a collection that the other one asks for meanwhile, so that the handler is
 * stopped; {@code block} waits in the kernel.
 */
final class Planted {
    private static final String[] WAYS = {"spin", "faults", "preempt", "block", "gc"};
    private static final int ORDINARY = 8;
    private static final int PAGE = 4096;
    private static final int WARM = 100;

    private record Job(long id, String way, long ns) {}

    private static long sink = 1;
    private static MappedByteBuffer pages;
    private static int at;
    private static OutputStream toHog;
    private static InputStream fromHog;
    private static volatile boolean isStopped;
    private static volatile long ownNs;
    private static final SynchronousQueue<Job> JOBS = new SynchronousQueue<>();
    private static final SynchronousQueue<Job> DONE = new SynchronousQueue<>();
    private static final SynchronousQueue<Job> COLLECTIONS = new SynchronousQueue<>();

    private static void work(int steps) {
        for (int i = 0; i < steps; i++) {
            sink = sink * 6364136223846793005L + 1442695040888963407L;
        }
    }

    private static void spinFor(long ns) {
        for (long until = System.nanoTime() + ns; System.nanoTime() < until; ) {
            work(100);
        }
    }

    private static void touchNewPages(long ns) {
        for (long until = System.nanoTime() + ns; System.nanoTime() < until; ) {
            for (int i = 0; i < 32; i++, at += PAGE) {
                pages.put(at, (byte) 1);
            }
        }
    }

    private static void bePreempted(long ns) throws Exception {
        toHog.write(ByteBuffer.allocate(8).order(ByteOrder.nativeOrder()).putLong(ns).array());
        toHog.flush();
        fromHog.read();
    }

    private static void delay(Job job) throws Exception {
        switch (job.way) {
            case "spin" -> spinFor(job.ns);
            case "faults" -> touchNewPages(job.ns);
            case "preempt" -> bePreempted(job.ns);
            case "block" -> LockSupport.parkNanos(job.ns);
            case "gc" -> {
                isStopped = false;
                long last = System.nanoTime();
                COLLECTIONS.put(job);
                // Steps that take long: it was stopped.
                long pauses = 0;
                for (boolean isOver = false; !isOver; ) {
                    isOver = isStopped;
                    long now = System.nanoTime();
                    if (now - last > 50_000) {
                        pauses += now - last;
                    }
                    last = now;
                }
                ownNs = pauses;
            }
            default -> {}
        }
    }

    private static void handle() {
        try {
            // The hog is on CPU 0.
            String tid = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
            int failed = new ProcessBuilder("taskset", "-cp", "0", tid).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor();
            if (failed != 0) {
                throw new IllegalStateException("taskset");
            }
            for (Job job = JOBS.take(); job.way != null; job = JOBS.take()) {
                Marks.switchTo(job.id);
                work(20000);
                long from = System.nanoTime();
                delay(job);
                if (!job.way.equals("gc")) {
                    ownNs = System.nanoTime() - from;
                }
                Marks.end(job.id);
                DONE.put(job);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static void collect() {
        try {
            for (; ; ) {
                COLLECTIONS.take();
                System.gc();
                isStopped = true;
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int each = Integer.parseInt(arguments[0]);
        Random random = new Random(Long.parseLong(arguments[1]));
        if (Marks.problem() != null) {
            throw new IllegalStateException(Marks.problem());
        }
        Process hog = new ProcessBuilder(arguments[3]).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        toHog = hog.getOutputStream();
        fromHog = hog.getInputStream();
        Path file = Files.createTempFile(Path.of("/dev/shm"), "planted", "");
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            pages = channel.map(FileChannel.MapMode.READ_WRITE, 0, Integer.MAX_VALUE);
        } finally {
            Files.delete(file);
        }
        List<Job> delayed = new ArrayList<>();
        for (String way : WAYS) {
            for (int i = 0; i < each; i++) {
                delayed.add(new Job(0, way, (long) (200_000 * Math.pow(10, random.nextDouble()))));
            }
        }
        Collections.shuffle(delayed, random);
        Thread handler = new Thread(Planted::handle, "handler");
        handler.start();
        Thread collector = new Thread(Planted::collect, "collector");
        collector.setDaemon(true);
        collector.start();
        try (PrintWriter out = new PrintWriter(arguments[2])) {
            // The first ones are for the compiler.
            for (int round = -WARM; round < delayed.size(); round++) {
                Job planted = round < 0 ? new Job(0, WAYS[-round % WAYS.length], 1_000_000) : delayed.get(round);
                for (int i = 0; i <= ORDINARY; i++) {
                    Job job = new Job(Marks.newId(), i < ORDINARY ? "" : planted.way, planted.ns);
                    long from = System.nanoTime();
                    Marks.begin(job.id);
                    Marks.switchTo(0);
                    JOBS.put(job);
                    DONE.take();
                    if (round >= 0 && !job.way.isEmpty()) {
                        out.printf("%d,%s,%d,%d,%d%n", job.id, job.way, job.ns, System.nanoTime() - from, ownNs);
                    }
                }
            }
        }
        JOBS.put(new Job(0, null, 0));
        handler.join();
        hog.destroy();
    }
}
