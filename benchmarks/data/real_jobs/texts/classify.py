"""Made-up texts, counted by character n-grams, told apart by a linear model trained in passes."""

import argparse

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier


def texts(count: int, words: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    vocabulary = np.array(["".join(rng.choice(list("abcdefghij"), 6)) for _ in range(3000)])
    labels = rng.integers(0, 4, count)
    return [" ".join(vocabulary[(rng.zipf(1.3, words) + 200 * label) % 3000]) for label in labels], labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--words", type=int, default=60)
    parser.add_argument("--n-epochs", type=int, default=10)
    args = parser.parse_args()
    corpus, labels = texts(args.documents, args.words)
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), max_features=50_000)
    x = vectorizer.fit_transform(corpus)
    print(f"vectorized {x.shape}", flush=True)
    model = SGDClassifier(random_state=0)
    for epoch in range(args.n_epochs):
        order = np.random.default_rng(epoch).permutation(len(labels))
        for start in range(0, len(labels), 256):
            part = order[start : start + 256]
            model.partial_fit(x[part], labels[part], classes=np.arange(4))
        print(f"epoch {epoch}: {model.score(x, labels):.3f}", flush=True)


if __name__ == "__main__":
    main()
