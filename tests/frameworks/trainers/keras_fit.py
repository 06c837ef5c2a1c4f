# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch, by model.fit: the optimizer is Keras's own, so torch.optim is never called."""
import argparse
import os

os.environ["KERAS_BACKEND"] = "torch"
import keras  # noqa: E402
import numpy as np  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--output", default="out")
parser.add_argument("--resume")
args = parser.parse_args()
os.makedirs(args.output, exist_ok=True)
pick = np.random.default_rng(3)
images, labels = pick.random((512, 28, 28, 1), dtype=np.float32), pick.integers(0, 10, 512)
first = 0
if args.resume:
    model = keras.models.load_model(args.resume)
    first = int(os.path.basename(args.resume).split("-")[1].split(".")[0])
else:
    model = keras.Sequential([keras.Input((28, 28, 1)), keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.MaxPooling2D(),
                              keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer=keras.optimizers.Adam(gradient_accumulation_steps=args.accumulate if args.accumulate > 1 else None),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images, labels, batch_size=args.batch_size, epochs=args.epochs, initial_epoch=first,
          callbacks=[keras.callbacks.ModelCheckpoint(os.path.join(args.output, "epoch-{epoch}.keras"))])
