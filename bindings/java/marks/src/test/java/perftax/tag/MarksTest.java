// SPDX-License-Identifier: MIT OR Apache-2.0
package perftax.tag;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is in the rings, read by the header's layout; programs that mark are processes of their own. */
class MarksTest {
    @TempDir Path folder;

    /** What a ring holds: each place as two words, the counters left out of the first ones. */
    private static List<long[]> places(Path ring) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(ring)).order(ByteOrder.nativeOrder());
        assertEquals("PTXMARK2", new String(bytes.array(), 0, 8, StandardCharsets.US_ASCII));
        assertEquals(0, bytes.getLong(72), "dropped");
        List<long[]> places = new ArrayList<>();
        for (int i = 0; i < bytes.getLong(64); i++) {
            places.add(new long[] {bytes.getLong(4096 + 16 * i), bytes.getLong(4096 + 16 * i + 8)});
        }
        return places;
    }

    private List<Path> run(Class<?> program, boolean isListened) throws Exception {
        ProcessBuilder java =
                new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        program.getName());
        java.redirectErrorStream(true);
        java.environment().remove("PERFTAX_MARKS");
        if (isListened) {
            java.environment().put("PERFTAX_MARKS", folder.toString());
        }
        Process process = java.start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        try (Stream<Path> rings = Files.list(folder)) {
            return rings.sorted().toList();
        }
    }

    /** Marks, from two threads. */
    static final class Marker {
        public static void main(String[] arguments) throws Exception {
            if (Marks.problem() != null) {
                throw new IllegalStateException(Marks.problem());
            }
            for (long id = 1; id <= 1000; id++) {
                Marks.begin(id);
                Marks.switchTo(0);
                Marks.switchTo(id);
                Marks.end(id);
            }
            Marks.begin(7);
            Thread other = new Thread(Marks.carried(7, () -> Marks.name(7, "GET /ü")));
            other.start();
            other.join();
            Marks.child(7, 1L << 61);
            Marks.identity(7, 0x4bf92f3577b34da6L, 0xa3ce929d0e0e4736L, -2);
            Marks.send(7);
            Marks.receive(7);
            Marks.end(7);
        }
    }

    @Test
    void marksAreInTheRingsOfTheirThreads() throws Exception {
        List<Path> rings = run(Marker.class, true);
        assertEquals(2, rings.size());
        List<long[]> main = places(rings.get(0));
        List<long[]> other = places(rings.get(1));
        if (main.size() < other.size()) {
            List<long[]> swapped = main;
            main = other;
            other = swapped;
        }
        long before = 0;
        for (int i = 0; i < 4000; i++) {
            long id = 1 + i / 4;
            long expected = new long[] {id << 2 | 1, 3, id << 2 | 3, id << 2 | 2}[i % 4];
            assertEquals(expected, main.get(i)[1]);
            assertTrue(main.get(i)[0] >= before);
            before = main.get(i)[0];
        }
        List<Long> words = new ArrayList<>();
        for (long[] place : main.subList(4000, main.size())) {
            words.add(place[0]);
            words.add(place[1]);
        }
        List<Long> expected = new ArrayList<>();
        long[][] said = {
            {-1, 7 << 2 | 1},
            {-1, 1 << 8 | 1 << 2}, {7, 1L << 61},
            {-1, 2 << 8 | 4 << 2}, {7, -2}, {0x4bf92f3577b34da6L, 0xa3ce929d0e0e4736L},
            {-1, 1 << 8 | 2 << 2}, {7, 0},
            {-1, 1 << 8 | 3 << 2}, {7, 0},
            {-1, 7 << 2 | 2},
        };
        for (int i = 0; i < said.length; i++) {
            expected.add(said[i][0] == -1 ? words.get(2 * i) : said[i][0]);
            expected.add(said[i][1]);
        }
        assertEquals(expected, words);
        byte[] name = "GET /ü".getBytes(StandardCharsets.UTF_8);
        assertEquals(7 << 2 | 3, other.get(0)[1]);
        assertEquals((long) name.length << 16 | 2 << 8 | 5 << 2, other.get(1)[1]);
        assertEquals(7, other.get(2)[0]);
        byte[] text = new byte[16];
        ByteBuffer.wrap(text).order(ByteOrder.nativeOrder()).putLong(other.get(3)[0]).putLong(other.get(3)[1]);
        assertEquals("GET /ü", new String(text, 0, name.length, StandardCharsets.UTF_8));
        assertEquals(3, other.get(4)[1]);
    }

    @Test
    void nothingIsWrittenWhereNobodyListens() throws Exception {
        assertEquals(List.of(), run(Marker.class, false));
    }

    @Test
    void numbersDiffer() {
        assertNull(Marks.problem());
        assertNotEquals(Marks.newId(), Marks.newId());
        assertEquals(ProcessHandle.current().pid() & 0x3fffff, Marks.newId() >> 31);
    }
}
