"""The application: scheduler core, simulator, service, pipeline and command line.

`scheduler/` stands alone; `pipeline.py` is the one place where facts, predictions and hints meet.
"""
