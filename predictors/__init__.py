"""Facts and history in, calibrated predictions out: duration, outcome, resources.

`predict(submission, facts, history)` is the way in; each estimator follows scikit-learn's fit/predict contract.
`OnlineDurationPredictor` is the fast one for replays: it learns from jobs as they end.
"""

from predictors.combined import MODEL_VERSION, predict
from predictors.duration import DurationEstimator
from predictors.online import OnlineDurationPredictor

__all__ = ["MODEL_VERSION", "DurationEstimator", "OnlineDurationPredictor", "predict"]
