# SPDX-License-Identifier: Apache-2.0
"""Makes a small data set for detection, coloured boxes on grey noise, in the layout that `yolo` reads.

    python examples/ultralytics/make_data.py FOLDER [--images 32] [--size 64]

writes FOLDER/data.yaml, FOLDER/images/{train,val}/*.png and FOLDER/labels/{train,val}/*.txt.
"""
import argparse
import os
import random

from PIL import Image, ImageDraw

CLASSES = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 70, 230)}


def make_image(chance, size):
    """(image, label lines): one to four boxes that may overlap; a line is 'class x_centre y_centre width height', 0 to 1."""
    image = Image.frombytes("L", (size, size), bytes(chance.randrange(90, 160) for _ in range(size * size))).convert("RGB")
    draw, lines = ImageDraw.Draw(image), []
    for _ in range(chance.randint(1, 4)):
        width, height = (chance.randint(size // 6, size // 2) for _ in range(2))
        left, top = chance.randint(0, size - width), chance.randint(0, size - height)
        kind = chance.randrange(len(CLASSES))
        draw.rectangle([left, top, left + width - 1, top + height - 1], fill=list(CLASSES.values())[kind])
        box = (left + width / 2, top + height / 2, width, height)
        lines.append(" ".join([str(kind)] + ["%.6f" % (value / size) for value in box]))
    return image, lines


def make_part(folder, part, count, size, chance):
    for kind in ("images", "labels"):
        os.makedirs(os.path.join(folder, kind, part), exist_ok=True)
    for number in range(count):
        image, lines = make_image(chance, size)
        image.save(os.path.join(folder, "images", part, "%03d.png" % number))
        with open(os.path.join(folder, "labels", part, "%03d.txt" % number), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()
    chance = random.Random(0)
    make_part(options.folder, "train", options.images, options.size, chance)
    make_part(options.folder, "val", max(1, options.images // 4), options.size, chance)
    with open(os.path.join(options.folder, "data.yaml"), "w", encoding="utf-8") as f:
        f.write("path: %s\ntrain: images/train\nval: images/val\nnames:\n" % os.path.abspath(options.folder))
        f.writelines("  %d: %s\n" % pair for pair in enumerate(CLASSES))


if __name__ == "__main__":
    main()
