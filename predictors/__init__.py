"""Facts and history in, calibrated predictions out: duration, outcome, resources.

`Predictor(history, trained).predict(submission, facts)` is the way in. `OnlineDurationPredictor` (fast) and
`stacked.StackedDurations` (with boosting) are what it learns durations with, and what replays use.
"""

from predictors.online import OnlineDurationPredictor
from predictors.predictor import MODEL_VERSION, Predictor, predict

__all__ = ["MODEL_VERSION", "OnlineDurationPredictor", "Predictor", "predict"]
