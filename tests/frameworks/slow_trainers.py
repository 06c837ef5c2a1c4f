# SPDX-License-Identifier: Apache-2.0
"""Every trainer of doc/trainers.md, from its real library: seen, measured, run to its end. Prints the table's rows."""
import tempfile
import unittest

import trainers


class Trainers(unittest.TestCase):
    def test_each(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here, missing = trainers.chosen()
        print("\n".join(missing))
        place = trainers.Folder(folder.name)
        place.prepare({t.package for t in here})
        for trainer in here:
            with self.subTest(trainer.name):
                row = trainers.row(place, trainer)
                print(row, flush=True)
                self.assertNotRegex(row, r"\| no[ :(]|not resumed")


if __name__ == "__main__":
    unittest.main()
