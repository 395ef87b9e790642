# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is in the rings, read by the header's layout; programs that mark are processes of their own."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest

BEGIN, END, SWITCH = 1, 2, 3
SAYS = {1: "child", 2: "send", 3: "receive", 4: "identity", 5: "name"}


def read(path):
    """The process, and what it says, as tuples."""
    data = path.read_bytes()
    magic, pid, _tid, capacity, _began = struct.unpack_from("=8sIIQQ", data)
    head, dropped = struct.unpack_from("=QQ", data, 64)
    assert magic == b"PTXMARK2" and len(data) == 4096 + 16 * capacity and head <= capacity, (magic, head, capacity)
    places = [struct.unpack_from("=QQ", data, 4096 + 16 * i) for i in range(head)]
    said, at, before = [], 0, 0
    while at < head:
        counter, word = places[at]
        assert counter >= before
        before = counter
        more = 0 if word & 3 else word >> 8 & 0xFF
        rest = places[at + 1 : at + 1 + more]
        at += 1 + more
        if word & 3:
            said.append(({BEGIN: "begin", END: "end", SWITCH: "switch"}[word & 3], word >> 2))
            continue
        what = SAYS[word >> 2 & 0x3F]
        if what == "name":
            text = b"".join(struct.pack("=QQ", *place) for place in rest[1:])[: word >> 16].decode()
            said.append((what, rest[0][0], text))
        elif what == "identity":
            said.append((what, rest[0][0], rest[1][0] << 64 | rest[1][1], rest[0][1]))
        else:
            said.append((what, *rest[0]) if what == "child" else (what, rest[0][0]))
    return pid, dropped, said


class Marks(unittest.TestCase):
    def run_program(self, text, is_listened=True, capacity=None):
        """Runs a program; what each of its threads has said, the first one's first."""
        with tempfile.TemporaryDirectory() as folder:
            variables = {name: value for name, value in os.environ.items() if not name.startswith("PERFTAX_MARKS")}
            if is_listened:
                variables["PERFTAX_MARKS"] = folder
            if capacity:
                variables["PERFTAX_MARKS_CAPACITY"] = str(capacity)
            text = "import perftax_tag\n" + textwrap.dedent(text)
            done = subprocess.run([sys.executable, "-c", text], env=variables, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.printed = done.stdout
            rings = sorted(pathlib.Path(folder).iterdir(), key=lambda path: int(path.name.split(".")[1]))
            return [read(path) for path in rings]

    def said(self, text, **how):
        return [said for _pid, _dropped, said in self.run_program(text, **how)]

    def test_what_is_said_is_in_the_ring(self):
        said = self.said(
            """
            perftax_tag.begin(7)
            perftax_tag.name(7, "GET /ü")
            perftax_tag.name(7, "x" * 2000)
            perftax_tag.child(7, 2**61)
            perftax_tag.identity(7, 0x4BF92F3577B34DA6A3CE929D0E0E4736, 2**64 - 2)
            perftax_tag.send(7)
            perftax_tag.receive(7)
            perftax_tag.switch(0)
            perftax_tag.switch(7)
            perftax_tag.end(7)
            """
        )
        expected = [
            ("begin", 7),
            ("name", 7, "GET /ü"),
            ("name", 7, "x" * 1024),
            ("child", 7, 2**61),
            ("identity", 7, 0x4BF92F3577B34DA6A3CE929D0E0E4736, 2**64 - 2),
            ("send", 7),
            ("receive", 7),
            ("switch", 0),
            ("switch", 7),
            ("end", 7),
        ]
        self.assertEqual(said, [expected])

    def test_nothing_is_written_where_nobody_listens(self):
        text = "print(perftax_tag.is_listened())\nperftax_tag.follow()\nwith perftax_tag.message(name='x'): pass"
        self.assertEqual(self.run_program(text, is_listened=False), [])
        self.assertEqual(self.printed, "False\n")

    def test_what_is_no_message_is_refused(self):
        rings = self.run_program(
            """
            for wrong in [-1, 2**62, 2**64, "x", 1.5, None]:
                for mark in [perftax_tag.begin, perftax_tag.end, perftax_tag.switch, perftax_tag.send, perftax_tag.receive]:
                    try:
                        mark(wrong)
                        print(mark, wrong)
                    except (TypeError, ValueError, OverflowError):
                        pass
            """
        )
        self.assertEqual((rings, self.printed), ([], ""))

    def test_a_full_ring_drops_and_counts(self):
        text = "for i in range(1, 1001): perftax_tag.begin(i)\nperftax_tag.name(1, 'x' * 100)"
        [(_pid, dropped, said)] = self.run_program(text, capacity=128)
        self.assertEqual((dropped, said), (1000 - 128 + 1, [("begin", i) for i in range(1, 129)]))

    def test_children_have_rings_of_their_own(self):
        rings = self.run_program(
            """
            import os
            perftax_tag.begin(1)
            if os.fork() == 0:
                perftax_tag.begin(2)
                os._exit(0)
            os.wait()
            perftax_tag.end(1)
            """
        )
        self.assertEqual([said for _pid, _dropped, said in rings], [[("begin", 1), ("end", 1)], [("begin", 2)]])
        self.assertNotEqual(rings[0][0], rings[1][0])

    def test_new_numbers_are_the_process_s_own(self):
        self.run_program("import os\na, b = perftax_tag.new_id(), perftax_tag.new_id()\nprint(b - a, (a >> 31) == os.getpid() & 0x3fffff, b < 2**53)")
        self.assertEqual(self.printed, "1 True True\n")

    def test_tasks_take_their_messages_along(self):
        said = self.said(
            """
            import asyncio
            perftax_tag.follow()
            perftax_tag.follow()

            async def handle(id):
                with perftax_tag.message(id):
                    await asyncio.sleep(0)
                    with perftax_tag.message(10 * id):
                        await asyncio.sleep(0)

            async def main():
                await asyncio.gather(asyncio.create_task(handle(1)), asyncio.create_task(handle(2)))

            asyncio.run(main())
            """
        )
        expected = [
            ("begin", 1), ("switch", 0), ("begin", 2), ("switch", 0),
            ("switch", 1), ("begin", 10), ("switch", 0), ("switch", 2), ("begin", 20), ("switch", 0),
            ("switch", 10), ("end", 10), ("switch", 1), ("end", 1), ("switch", 0),
            ("switch", 20), ("end", 20), ("switch", 2), ("end", 2), ("switch", 0),
        ]  # fmt: skip
        # What the loop calls for itself says that the thread is at none, again and again.
        told = [one for at, one in enumerate(said[0]) if one != ("switch", 0) or (at and said[0][at - 1] != one)]
        while told[0] == ("switch", 0):
            told.pop(0)
        self.assertEqual((len(said), told), (1, expected))

    def test_a_task_that_is_created_for_a_message_is_of_it(self):
        said = self.said(
            """
            import asyncio
            perftax_tag.follow()

            async def part():
                perftax_tag.name(1, "part")

            async def main():
                with perftax_tag.message(1):
                    await asyncio.create_task(part())

            asyncio.run(main())
            """
        )
        at = said[0].index(("name", 1, "part"))
        self.assertEqual((said[0][at - 1], said[0][at + 1]), (("switch", 1), ("switch", 0)))

    def test_what_outlives_its_message_is_of_none(self):
        said = self.said(
            """
            import asyncio
            perftax_tag.follow()

            async def later():
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                perftax_tag.name(9, "later")

            async def main():
                with perftax_tag.message(5):
                    with perftax_tag.message(1):
                        task = asyncio.create_task(later())
                await task
                with perftax_tag.message(2):
                    pass

            asyncio.run(main())
            """
        )
        at = said[0].index(("name", 9, "later"))
        # The loop says of each step that the thread is at none again, and of none what it is at.
        self.assertEqual(said[0][at - 1], ("switch", 0))
        end = said[0].index(("end", 1))
        self.assertNotIn(("switch", 1), said[0][end:])
        self.assertEqual(said[0][said[0].index(("end", 2)) + 1], ("switch", 0))

    def test_a_name_that_cannot_be_written_is_spelled(self):
        said = self.said("perftax_tag.begin(1)\nperftax_tag.name(1, '/a\\udcff')\nperftax_tag.name(1, None)")
        self.assertEqual(said, [[("begin", 1), ("name", 1, "'/a\\udcff'"), ("name", 1, "None")]])

    def test_an_exception_in_a_callback_goes_where_it_went(self):
        self.said(
            """
            import asyncio
            perftax_tag.follow()

            async def main():
                loop = asyncio.get_running_loop()
                loop.set_exception_handler(lambda loop, context: print(repr(context["exception"])))
                loop.call_soon(lambda: 1 / 0)
                await asyncio.sleep(0)

            asyncio.run(main())
            """
        )
        self.assertEqual(self.printed, "ZeroDivisionError('division by zero')\n")

    def test_thread_pools_work_for_whoever_hands_over(self):
        said = self.said(
            """
            import asyncio
            from concurrent.futures import ThreadPoolExecutor
            perftax_tag.follow()

            with ThreadPoolExecutor(1) as pool:
                with perftax_tag.message(1):
                    pool.submit(perftax_tag.name, 1, "in the pool").result()
                pool.submit(perftax_tag.name, 3, "of none").result()

            async def main():
                with perftax_tag.message(2):
                    await asyncio.to_thread(perftax_tag.name, 2, "in a thread")

            asyncio.run(main())
            """
        )
        self.assertEqual(said[0][0], ("begin", 1))
        self.assertEqual(said[1], [("switch", 1), ("name", 1, "in the pool"), ("switch", 0), ("name", 3, "of none")])
        self.assertEqual(said[2], [("switch", 2), ("name", 2, "in a thread"), ("switch", 0)])


if __name__ == "__main__":
    unittest.main()
