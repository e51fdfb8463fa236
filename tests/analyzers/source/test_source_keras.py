"""Keras programs: the model is what ``fit`` is called on, whatever the data went through."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

IMPORTS = {
    "keras": "import keras\nfrom keras.datasets import mnist\n",
    "datasets of keras": "import keras\nmnist = keras.datasets.mnist\n",
    "tensorflow": "import tensorflow as tf\nfrom tensorflow import keras\nmnist = tf.keras.datasets.mnist\n",
}
DATA = """
(x, y), (tx, ty) = mnist.load_data()
x = x.astype("float32") / 255
tx = tx.reshape(-1, 784)
"""
MODELS = {
    "keras.Sequential([keras.layers.Dense(10)])": "Sequential",
    "keras.models.Sequential([keras.layers.Dense(10)])": "Sequential",
    "keras.applications.ResNet50(weights=None, classes=10)": "ResNet50",
    "keras.applications.efficientnet.EfficientNetB0(weights=None)": "EfficientNetB0",
    "keras.Model(inputs=keras.Input((784,)), outputs=keras.layers.Dense(10)(x))": None,
    "keras.models.load_model('m.keras')": None,
}
FIT = "model.compile(optimizer='adam', loss='mse')\nmodel.fit({x}, y, batch_size=32, epochs=5)\n"


def wrapped(text: str) -> str:
    return "def main():\n" + "".join(f"    {line}\n" for line in text.splitlines()) + "main()\n"


@pytest.mark.parametrize("imports", IMPORTS)
@pytest.mark.parametrize("made", MODELS)
@pytest.mark.parametrize("given", ["x", "tx", "x[:100]", "x.reshape(60000, 784)", "mnist.load_data()[0][0]"])
def test_data_are_never_the_model(tmp_path: Path, kit: SimpleNamespace, imports: str, made: str, given: str) -> None:
    body = f"{DATA}model = {made}\n{FIT.format(x=given)}"
    scoped = f"{DATA}strategy = distribute()\nwith strategy.scope():\n    model = {made}\n{FIT.format(x=given)}"
    for number, text in enumerate((body, wrapped(body), scoped, wrapped(scoped))):
        kit.grow(tmp_path, {f"t{number}.py": f"{IMPORTS[imports]}{text}"})
        facts = kit.read(tmp_path, f"python t{number}.py")
        assert kit.values(facts, "model", "epochs", "workload_type") == (MODELS[made], 5, "train")


def test_a_model_of_the_tree_keeps_its_class(tmp_path: Path, kit: SimpleNamespace) -> None:
    own = "class Digits(keras.Model):\n    def call(self, x):\n        return x\nmodel = Digits()\n"
    kit.grow(tmp_path, {"t.py": f"{IMPORTS['keras']}{DATA}{own}{FIT.format(x='x')}"})
    assert kit.read(tmp_path, "python t.py").value("model") == "Digits"


def test_a_generator_that_fits_statistics_trains_nothing(tmp_path: Path, kit: SimpleNamespace) -> None:
    generator = "g = keras.preprocessing.image.ImageDataGenerator()\ng.fit(x)\n"
    kit.grow(tmp_path, {"t.py": f"{IMPORTS['keras']}{DATA}{generator}"})
    facts = kit.read(tmp_path, "python t.py")
    assert kit.values(facts, "model", "epochs") == (None, None)
