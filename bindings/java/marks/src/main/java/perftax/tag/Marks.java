// SPDX-License-Identifier: MIT OR Apache-2.0
package perftax.tag;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Marks: a program says which message (request, task, transaction) a thread works on, and {@code perftax trace record} listens.
 *
 * <pre>{@code
 * long id = Marks.newId();
 * Marks.begin(id);      // the thread starts to work on message id
 * Marks.switchTo(0);    // it turns to something else
 * Marks.switchTo(id);   // and back; also in another thread
 * Marks.end(id);
 * }</pre>
 *
 * <p>Where nobody listens a mark is a load and a branch. Where somebody does, it is a call of native code, a time stamp and sixteen bytes in a ring of the thread's own; a full ring drops
 * marks and counts them.
 *
 * <p>Java 17 and later on Linux. A virtual thread's marks are those of the thread that carries it, and nothing says when it leaves that: {@link #switchTo} does, by hand.
 * The library is looked for where {@code perftax.tag.library} says, then in the jar. Without it nothing is marked, and {@link #problem()} says why.
 */
public final class Marks {
    private static final int BEGIN = 1;
    private static final int END = 2;
    private static final int SWITCH = 3;
    private static final int CHILD = 1;
    private static final int SEND = 2;
    private static final int RECEIVE = 3;
    private static final int IDENTITY = 4;
    private static final int NAME = 5;
    /** {@code perftax_tag_state}: nobody listens. */
    private static final int NOBODY = 1;

    /** Numbers where nothing is marked. */
    private static final AtomicLong COUNT = new AtomicLong();

    private static final String PROBLEM;
    /** {@code perftax_tag_state}. */
    private static final ByteBuffer STATE;

    static {
        String problem = null;
        ByteBuffer state = null;
        try {
            load();
            state = state();
        } catch (IOException | LinkageError | SecurityException error) {
            problem = error.toString();
        }
        PROBLEM = problem;
        STATE = (state == null ? ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder()).putInt(0, NOBODY) : state)
                .order(ByteOrder.nativeOrder());
    }

    private Marks() {}

    private static void load() throws IOException {
        String said = System.getProperty("perftax.tag.library");
        if (said != null) {
            System.load(Path.of(said).toAbsolutePath().toString());
            return;
        }
        String name = "linux-" + System.getProperty("os.arch") + "/libperftax_tag.so";
        try (InputStream library = Marks.class.getResourceAsStream(name)) {
            if (library == null) {
                throw new IOException("the jar has no " + name);
            }
            Path file = Files.createTempFile("libperftax_tag", ".so");
            file.toFile().deleteOnExit();
            Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
            System.load(file.toString());
        }
    }

    private static native ByteBuffer state();

    private static native void mark(long id, int kind);

    private static native void say(int what, long id, long other, long high, long low, byte[] text);

    private static native long newNumber();

    /** Why nothing is marked; null: nothing keeps it from that. */
    public static String problem() {
        return PROBLEM;
    }

    /** Whether somebody listens. */
    public static boolean isListened() {
        return STATE.getInt(0) != NOBODY;
    }

    /** The thread starts to work on message {@code id}: a number below 2^62 but 0, unique among the messages under way. */
    public static void begin(long id) {
        if (isListened()) {
            mark(id, BEGIN);
        }
    }

    /** Message {@code id} is done. */
    public static void end(long id) {
        if (isListened()) {
            mark(id, END);
        }
    }

    /** The thread goes on with message {@code id}, which has begun already; 0: with none. */
    public static void switchTo(long id) {
        if (isListened()) {
            mark(id, SWITCH);
        }
    }

    /** Message {@code id} is part of message {@code parent}, of whatever process. */
    public static void child(long id, long parent) {
        if (isListened()) {
            say(CHILD, id, parent, 0, 0, null);
        }
    }

    /** What message {@code id} is called; 1024 bytes of it are kept. */
    public static void name(long id, String name) {
        if (isListened()) {
            say(NAME, id, 0, 0, 0, String.valueOf(name).getBytes(StandardCharsets.UTF_8));
        }
    }

    /** What others call message {@code id}: a trace of 128 bits, in two halves, and a span of 64. */
    public static void identity(long id, long traceHigh, long traceLow, long span) {
        if (isListened()) {
            say(IDENTITY, id, span, traceHigh, traceLow, null);
        }
    }

    /** Message {@code id} goes to another process. */
    public static void send(long id) {
        if (isListened()) {
            say(SEND, id, 0, 0, 0, null);
        }
    }

    /** Message {@code id} has come from another process. */
    public static void receive(long id) {
        if (isListened()) {
            say(RECEIVE, id, 0, 0, 0, null);
        }
    }

    /** A number that no other process of this PID namespace gives a message while it and this process run. */
    public static long newId() {
        return PROBLEM == null ? newNumber() : COUNT.incrementAndGet();
    }

    /** The task, for another thread: it works on message {@code id} while it runs, and on none after it. */
    public static Runnable carried(long id, Runnable task) {
        return () -> {
            switchTo(id);
            try {
                task.run();
            } finally {
                switchTo(0);
            }
        };
    }

    /** The same for a task that returns something. */
    public static <T> Callable<T> carried(long id, Callable<T> task) {
        return () -> {
            switchTo(id);
            try {
                return task.call();
            } finally {
                switchTo(0);
            }
        };
    }

    /** An executor whose tasks are of message {@code id}. One that runs them in the caller's thread leaves that at none. */
    public static Executor carried(long id, Executor executor) {
        return task -> executor.execute(carried(id, task));
    }
}
