"""Facts and history in, calibrated predictions out: duration, outcome, resources.

`predict(submission, facts, history)` is the way in; each estimator follows scikit-learn's fit/predict contract.
"""
