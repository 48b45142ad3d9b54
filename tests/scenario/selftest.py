#!/usr/bin/env python3
"""The harness's own codecs, against published vectors: a wrong second opinion is worse than none.

And every scenario is run by scripts/test and known to ctest: one that nobody runs finds nothing.
"""

import glob
import os
import re
import unittest

import blocks
import bus
import s3

CHAIN = [(14643705804678351452, 0, 0), (4945711292740353085, 1, 14643705804678351452),
         (12583592247330656132, 2, 4945711292740353085)]


HERE = os.path.dirname(os.path.abspath(__file__))


def text(*path):
    with open(os.path.join(HERE, *path), encoding="utf-8") as file:
        return file.read()


class Selftest(unittest.TestCase):
    def test_every_scenario_is_run(self):
        programs = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(HERE, "*.py"))
                    if "__main__" in text(path)} - {"selftest"}
        self.assertGreater(len(programs), 20)
        whole = re.sub(r"(?s)then\n +run_scenario release main_job --minutes.*?else", "",
                       text("..", "..", "scripts", "test"))  # without --quick's shorter list
        run = set(re.findall(r"run_scenario release ([a-z_]+)", whole))
        self.assertEqual(programs - run, set())
        known = set(re.findall(r"[a-z_]+", text("CMakeLists.txt").split(")", 1)[0]))
        self.assertEqual(programs - {"clients"} - known, set())

    def test_keys_are_kvbms(self):
        wanted = ["3/0:azWbh91idkf", "3/1:CUrLYDFnmBa:13A3sGnbCSf", "3/2:WD9tZKnMfx7:12KG5vAW7Me"]
        for (hash_, position, parent), text in zip(CHAIN, wanted):
            self.assertEqual(blocks.key(hash_, position, parent, rank=3), text)
            self.assertEqual(blocks.parse_key(text)[:4], ("", 3, position, hash_))
        self.assertIsNone(blocks.parse_key("notes/today"))
        self.assertIsNone(blocks.parse_key("3/0:0OIl"))

    def test_base58_keeps_leading_zero_bytes(self):
        for value, text in ((0, "11111111"), (1, "11111112"), ((1 << 64) - 1, "jpXCZedGfVQ")):
            self.assertEqual(blocks.base58(value), text)
            self.assertEqual(blocks.base58_value(text), value)

    def test_crc32c_is_castagnoli(self):
        for function in (blocks.crc32c, blocks._table_crc32c()):
            self.assertEqual(function(b"123456789"), 0xE3069283)
            self.assertEqual(function(bytes(32)), 0x8A9136AA)
            self.assertEqual(function(b""), 0)

    def test_msgpack_round_trip(self):
        for value in (0, 127, 128, 255, 256, 65535, 65536, (1 << 64) - 1, -1, "", "a" * 40, "ü" * 300,
                      b"", bytes(300), [], [1, [2, "x"]], list(range(20)), None, True, False):
            self.assertEqual(bus.unpack(bus.pack(value)), value)
        for broken in (b"\xc1", b"\x01\x02"):
            with self.assertRaises(ValueError):
                bus.unpack(broken)

    def test_signature_of_the_s3_manual(self):
        """GET of the AWS S3 reference, "Signature Calculations for the Authorization Header"."""
        client = s3.Client("http://examplebucket.s3.amazonaws.com", "AKIAIOSFODNN7EXAMPLE",
                           "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
        empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        headers = client.sign("GET", "/test.txt", {}, {"Range": "bytes=0-9"}, empty,
                              now="20130524T000000Z")
        self.assertTrue(headers["authorization"].endswith(
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"))


if __name__ == "__main__":
    unittest.main()
