# SPDX-License-Identifier: Apache-2.0
"""Digits (of noise), as the mnist of pytorch/examples is written: a loop a epoch, a test after it, one file with the weights. It
cannot resume."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3), nn.Conv2d(16, 32, 3)
        self.dropout, self.fc1, self.fc2 = nn.Dropout(0.25), nn.Linear(32 * 12 * 12, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(self.dropout(x), 1)))), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--log-interval", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(1)
    digits = torch.utils.data.TensorDataset(torch.rand(args.samples, 1, 28, 28), torch.arange(args.samples) % 10)
    train = torch.utils.data.DataLoader(digits, batch_size=args.batch_size, shuffle=True)
    test = torch.utils.data.DataLoader(digits, batch_size=256)
    model = Net()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for number, (data, target) in enumerate(train):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            if number % args.log_interval == 0:
                print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                    epoch, number * len(data), len(digits), 100. * number / len(train), loss.item()), flush=True)
        model.eval()
        with torch.no_grad():
            right = sum((model(data).argmax(1) == target).sum().item() for data, target in test)
        print("\nTest set: Accuracy: {}/{}\n".format(right, len(digits)))
    torch.save(model.state_dict(), "mnist_cnn.pt")


if __name__ == "__main__":
    main()
