"""A pipeline of scikit-learn, its settings searched by cross-validation."""

import argparse

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

MODELS = {
    "logistic": (LogisticRegression(max_iter=400), {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}),
    "forest": (RandomForestClassifier(n_estimators=60, random_state=0), {"randomforestclassifier__max_depth": [6, 12]}),
    "boosting": (
        HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=5, max_iter=400, random_state=0),
        {
            "histgradientboostingclassifier__learning_rate": [0.03, 0.1],
            "histgradientboostingclassifier__max_depth": [3, 8],
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="logistic")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--data", help="a CSV file with the column `label` in place of made-up data")
    args = parser.parse_args()
    if args.data:
        table = pd.read_csv(args.data)
        x, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    else:
        x, y = make_classification(args.rows, args.columns, n_informative=args.columns // 2, random_state=1)
    estimator, grid = MODELS[args.model]
    search = GridSearchCV(make_pipeline(StandardScaler(), estimator), grid, cv=args.folds, verbose=2)
    search.fit(x, y)
    print(search.best_params_, f"{np.max(search.cv_results_['mean_test_score']):.4f}")


if __name__ == "__main__":
    main()
