"""Made-up events, cleaned, joined and aggregated with pandas, in parts or at once."""

import argparse

import numpy as np
import pandas as pd


def events(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": rng.integers(0, 5000, rows),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30 * 86400, rows), unit="s"),
            "page": rng.choice(["home", "list", "item", "cart", "pay"], rows),
            "spent": rng.exponential(3.0, rows),
        }
    )


def summary(table: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    table = table.sort_values(["user", "at"])
    table["session"] = (table.groupby("user")["at"].diff() > pd.Timedelta("30min")).groupby(table["user"]).cumsum()
    table["label"] = table["page"].str.upper() + "-" + table["at"].dt.strftime("%Y-%m-%d %H")
    joined = table.merge(users, on="user", how="left")
    return joined.groupby(["country", "label"]).agg(spent=("spent", "sum"), sessions=("session", "nunique"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--users", help="a CSV file of users and their countries")
    args = parser.parse_args()
    rng = np.random.default_rng(7)
    if args.users:
        users = pd.read_csv(args.users)
    else:
        users = pd.DataFrame({"user": np.arange(5000), "country": rng.choice(["de", "fr", "in", "us"], 5000)})
    parts = []
    for chunk in range(args.chunks):
        parts.append(summary(events(args.rows // args.chunks, chunk), users))
        print(f"chunk {chunk + 1}/{args.chunks}: {len(parts[-1])} groups", flush=True)
    print(pd.concat(parts).groupby(level=[0, 1]).sum().shape)


if __name__ == "__main__":
    main()
