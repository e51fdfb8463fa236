"""Public packages by their import names: those never walked though they lie in the tree, and those that are known."""

from __future__ import annotations

#: Large libraries that the idioms understand from outside. A checkout of one is not part of the job's own program.
NEVER_WALKED = frozenset([
    "torch", "torchvision", "torchaudio", "torchtext", "transformers", "accelerate", "deepspeed", "lightning",
    "pytorch_lightning", "lightning_fabric", "jax", "jaxlib", "flax", "optax", "haiku", "equinox", "tensorflow",
    "keras",
    "tf_keras", "timm", "peft", "trl", "diffusers", "mmengine", "mmcv", "detectron2", "fairscale", "apex", "xformers",
    "numpy", "scipy", "pandas", "sklearn", "omegaconf", "hydra", "sentence_transformers", "torch_geometric", "dgl",
    "bitsandbytes", "triton", "vllm", "ray",
])  # fmt: skip

#: Other packages of the field: importing one leaves nothing of the job's own program unread.
KNOWN = NEVER_WALKED | frozenset([
    "absl", "addict", "aim", "albumentations", "apache_beam", "attr", "attrs", "av", "boto3", "braceexpand", "bs4",
    "click",
    "clu", "cloudpickle", "comet_ml", "cv2", "cycler", "dask", "datasets", "decord", "dill", "dm_env", "docopt",
    "easydict",
    "einops", "etils", "evaluate", "faiss", "fire", "flash_attn", "fsspec", "ftfy", "fvcore", "gin", "google",
    "graphviz",
    "grain", "gym", "gymnasium", "h5py", "horovod", "huggingface_hub", "idna", "ignite", "imageio", "ipywidgets",
    "IPython",
    "jiwer", "joblib", "jsonlines", "jupyter", "kornia", "librosa", "lightgbm", "lmdb", "loguru", "lpips", "lxml",
    "magic",
    "matplotlib", "ml_collections", "mlflow", "monai", "mpi4py", "msgpack", "munch", "nltk", "nlp", "neptune",
    "numba", "nvidia",
    "onnx", "onnxruntime", "open_clip", "openai", "optuna", "orbax", "orjson", "packaging", "parameterized", "PIL",
    "pickle5",
    "plotly", "polars", "portalocker", "prettytable", "psutil", "pyarrow", "pycocotools", "pydantic", "pynvml",
    "pytest",
    "pytz", "pyrallis", "regex", "requests", "rich", "rootutils", "rouge_score", "ruamel", "sacrebleu", "safetensors",
    "scienceplots", "seaborn", "sentencepiece", "seqeval", "setuptools", "setproctitle", "shapely", "simplejson", "six",
    "skimage", "slowfast", "smart_open", "sounddevice", "soundfile", "spacy", "stable_baselines3", "submitit", "sympy",
    "tabulate", "tensorboard", "tensorboardX", "tensorboard_logger", "tensorflow_datasets", "tensorflow_hub",
    "tensorflow_probability", "tensorflow_text", "tensorstore", "termcolor", "thop", "tiktoken", "tokenizers",
    "toml", "tomli",
    "torch_ema", "torch_optimizer", "torch_xla", "torchdata", "torchinfo", "torchmetrics", "torchsummary", "tqdm",
    "transformer_engine", "typeguard", "typer", "typing_extensions", "tyro", "ujson", "ultralytics", "unidecode",
    "visdom",
    "wandb", "webdataset", "xarray", "xgboost", "yacs", "yaml", "zmq", "zstandard", "pkg_resources", "future",
    "jaxtyping",
    "mup", "zarr", "pyspark", "sagemaker", "azureml", "lion_pytorch", "liger_kernel", "mlxtend", "imgaug",
    "nvidia_dali", "jsonargparse", "lightning_utilities", "litdata", "litserve", "configargparse", "dotenv", "iopath",
    "tensordict", "torch_scatter", "torch_sparse", "torch_cluster", "ogb", "rdkit", "open3d", "trimesh", "netCDF4",
    "pycocoevalcap", "panopticapi", "lvis", "hjson", "editdistance", "colorama", "gdown", "natsort", "sacred",
    "segmentation_models_pytorch", "pytorch_metric_learning", "dacite", "deepdiff", "cachetools", "lightning_sdk",
])  # fmt: skip
