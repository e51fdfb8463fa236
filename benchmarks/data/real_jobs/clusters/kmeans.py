"""K-means by hand with numpy; ends when the centres stand still, or after a number of rounds."""

import argparse

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--dims", type=int, default=16)
    parser.add_argument("--k", type=int, default=32)
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--tol", type=float, default=1e-3)
    args = parser.parse_args()
    rng = np.random.default_rng(3)
    points = (
        rng.normal(size=(args.points, args.dims)) + 4 * rng.normal(size=(8, args.dims))[rng.integers(0, 8, args.points)]
    )
    centres = points[rng.choice(args.points, args.k, replace=False)]
    for step in range(args.max_iter):
        distances = ((points**2).sum(1)[:, None] - 2 * points @ centres.T) + (centres**2).sum(1)
        nearest = distances.argmin(axis=1)
        moved = np.stack(
            [
                points[nearest == each].mean(axis=0) if (nearest == each).any() else centres[each]
                for each in range(args.k)
            ]
        )
        shift = float(np.abs(moved - centres).max())
        centres = moved
        print(f"iteration {step + 1}/{args.max_iter} shift {shift:.5f}", flush=True)
        if shift < args.tol:
            break


if __name__ == "__main__":
    main()
