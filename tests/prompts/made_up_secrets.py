"""Secrets in the shapes that are in use, all of them made up, and the places where people leave them.

Assembled at run time, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Callable
from dataclasses import dataclass

_LETTERS = string.ascii_letters + string.digits


def _made(seed: str, length: int, alphabet: str = _LETTERS) -> str:
    """Characters that look random, the same every time; with a digit, a small letter and a capital where it may."""
    found, block = "", 0
    while len(found) < length:
        found += "".join(alphabet[b % len(alphabet)] for b in hashlib.sha256(f"{seed}{block}".encode()).digest())
        block += 1
    return ("a1Z" + found)[:length] if alphabet == _LETTERS else found[:length]


def _hex(seed: str, length: int) -> str:
    return ("a1" + _made(seed, length, "0123456789abcdef"))[:length]


def _b64(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


def _key_block(kind: str, seed: str) -> str:
    body = "\n".join(_made(f"{seed}{i}", 64) for i in range(4))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"


def _jwt(seed: str, claims: dict[str, object]) -> str:
    head = _b64('{"alg":"RS256","typ":"JWT"}').rstrip("=")
    return ".".join([head, _b64(json.dumps(claims)).rstrip("="), _made(seed, 43)])


@dataclass(frozen=True)
class Secret:
    """``text`` as people write it, and the parts of it that nobody may see; ``lines``: it takes several."""

    text: str
    hidden: tuple[str, ...]

    @property
    def lines(self) -> bool:
        """Whether it takes several lines."""
        return "\n" in self.text


def _token(text: str) -> Secret:
    """A token whose every character counts: neither its end nor a longer part of it may be left."""
    return Secret(text, (text[-12:], text[len(text) // 3 : len(text) // 3 + 12]))


def _within(text: str, secret: str) -> Secret:
    return Secret(text, (secret,))


def _block(kind: str, seed: str) -> Secret:
    text = _key_block(kind, seed)
    return Secret(text, tuple(row[:20] for row in text.split("\n")[1:-1]))


_GOOGLE = {
    "type": "service_account", "project_id": "p-1", "private_key_id": _hex("gid", 40),
    "private_key": _key_block("PRIVATE " + "KEY", "gcp") + "\n", "client_email": "job@p-1.iam.gserviceaccount.com",
}  # fmt: skip

#: By kind. Those that nothing but their shape gives away can stand behind any name, or none.
BARE: dict[str, Secret] = {
    "aws key id": _token("AKIA" + _made("aws", 16, string.ascii_uppercase + "234567")),
    "aws session key id": _token("ASIA" + _made("aws2", 16, string.ascii_uppercase + "234567")),
    "google api": _token("AIza" + _made("g1", 35)),
    "google oauth": _token("ya29." + _made("g2", 60)),
    "google client": _token("GOCSPX-" + _made("g3", 28)),
    "azure client secret": _token(_made("az", 3) + "8Q~" + _made("az2", 34)),
    "digitalocean": _token("dop_v1_" + _hex("do", 64)),
    "github classic": _token("ghp_" + _made("gh", 36)),
    "github server": _token("ghs_" + _made("gh2", 36)),
    "github fine grained": _token("github_pat_" + _made("gh3", 22) + "_" + _made("gh4", 59)),
    "gitlab": _token("glpat-" + _made("gl", 20)),
    "gitlab deploy": _token("gldt-" + _made("gl2", 20)),
    "bitbucket": _token("ATBB" + _made("bb", 32)),
    "atlassian": _token("ATATT3" + _made("at", 60)),
    "slack bot": _token("xoxb-" + "123456789012-123456789012-" + _made("sl", 24)),
    "slack user": _token("xoxp-" + "123456789012-123456789012-123456789012-" + _hex("sl2", 32)),
    "slack app": _token("xapp-1-" + "A0123456789-1234567890123-" + _hex("sl3", 64)),
    "hugging face": _token("hf_" + _made("hf", 34)),
    "openai old": _token("sk-" + _made("oa", 20) + "T3BlbkFJ" + _made("oa2", 20)),
    "openai project": _token("sk-proj-" + _made("oa3", 74) + "T3BlbkFJ" + _made("oa4", 74)),
    "openai service": _token("sk-svcacct-" + _made("oa5", 60)),
    "anthropic": _token("sk-ant-api03-" + _made("an", 93) + "AA"),
    "openrouter": _token("sk-or-v1-" + _hex("or", 64)),
    "langsmith": _token("lsv2_pt_" + _hex("ls", 32) + "_" + _hex("ls2", 10)),
    "langfuse": _token("sk-lf-1a2b3c4d-5e6f-4a7b-8c9d-0e1f2a3b4c5d"),
    "nvidia": _token("nvapi-" + _made("nv", 64)),
    "replicate": _token("r8_" + _made("r8", 37)),
    "groq": _token("gsk_" + _made("gq", 52)),
    "xai": _token("xai-" + _made("xa", 80)),
    "perplexity": _token("pplx-" + _made("pp", 48)),
    "pinecone": _token("pcsk_" + _made("pi", 60)),
    "wandb new": _token("wandb_v1_" + _made("wb", 70)),
    "kaggle new": _token("KGAT_" + _hex("kg", 32)),
    "databricks": _token("dapi" + _hex("db", 32)),
    "npm": _token("npm_" + _made("np", 36)),
    "pypi": _token("pypi-AgEIcHlwaS5vcmc" + _made("py", 120)),
    "docker": _token("dckr_pat_" + _made("dk", 27)),
    "vault": _token("hvs." + _made("va", 90)),
    "vault batch": _token("hvb." + _made("va2", 120)),
    "terraform": _token(_made("tf", 14) + ".atlasv1." + _made("tf2", 67)),
    "doppler": _token("dp.st.prd." + _made("dp", 43)),
    "pulumi": _token("pul-" + _hex("pu", 40)),
    "tailscale": _token("tskey-auth-" + _made("ts", 12) + "CNTRL-" + _made("ts2", 32)),
    "stripe": _token("sk_live_" + _made("st", 24)),
    "stripe restricted": _token("rk_live_" + _made("st2", 24)),
    "twilio": _token("SK" + _hex("tw", 32)),
    "sendgrid": _token("SG." + _made("sg", 22) + "." + _made("sg2", 43)),
    "mailgun": _token("key-" + _hex("mg", 32)),
    "mailchimp": _token(_hex("mc", 32) + "-us14"),
    "brevo": _token("xkeysib-" + _hex("br", 64) + "-" + _made("br2", 16)),
    "telegram": _token("1234567890:AA" + _made("tg", 33)),
    "discord bot": _token("MTIz" + _made("di", 22) + ".GaBcDe." + _made("di2", 38)),
    "shopify": _token("shpat_" + _hex("sh", 32)),
    "square": _token("sq0atp-" + _made("sq", 22)),
    "grafana": _token("glsa_" + _made("gr", 32) + "_" + _hex("gr2", 8)),
    "new relic": _token("NRAK-" + _made("nr", 27, string.ascii_uppercase + string.digits)),
    "sentry": _token("sntrys_" + _made("se", 80)),
    "linear": _token("lin_api_" + _made("li", 40)),
    "notion": _token("ntn_" + _made("no", 46)),
    "figma": _token("figd_" + _made("fi", 40)),
    "airtable": _token("pat" + _made("ai", 14) + "." + _hex("ai2", 64)),
    "artifactory": _token("AKCp" + _made("ar", 69)),
    "postman": _token("PMAK-" + _hex("pm", 24) + "-" + _hex("pm2", 34)),
    "age": _token("AGE-SECRET-KEY-1" + _made("ag", 58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    "1password": _token("ops_eyJ" + _made("op", 200)),
    "jwt": _token(_jwt("jw", {"sub": "1234567890", "name": "job"})),
    "kubernetes service account": _token(_jwt("ks", {"iss": "kubernetes/serviceaccount", "sub": "system:sa:ns:j"})),
    "slurm jwt": _token(_jwt("sj", {"exp": 1700000000, "iat": 1690000000, "sun": "alice"})),
    "neptune": _token(_b64('{"api_address":"https://app.neptune.ai","api_key":"' + _made("ne", 36) + '"}')),
    "basic pair in base64": _token(_b64("deploy:" + _made("ba", 14))),
    "token in base64": _token(_b64("ghp_" + _made("b6", 36))),
    "postgres": _within("postgresql://job:Pw9-blue_sky@db.example.com:5432/runs", "Pw9-blue_sky"),
    "redis": _within("redis://:letmein_now@cache.example.com:6379/0", "letmein_now"),
    "mongo": _within("mongodb+srv://svc:winter-is-here@c0.example.mongodb.net/x", "winter-is-here"),
    "amqp": _within("amqps://svc:rabbit7hole@mq.example.com:5671/v", "rabbit7hole"),
    "mlflow address": _within("https://alice:tr4cking-pw@mlflow.example.com", "tr4cking-pw"),
    "git address": _within("https://oauth2:" + _made("ga", 40) + "@git.example.com/g/r.git", _made("ga", 40)[:12]),
    "s3 address": Secret(
        "s3://AKIA" + _made("s3", 16, string.ascii_uppercase + "234567") + ":" + _made("s3b", 40) + "@bucket/x",
        (_made("s3b", 40)[:12], _made("s3b", 40)[-12:]),
    ),
    "s3 presigned": _within(
        "https://b.s3.amazonaws.com/o?X-Amz-Credential=x&X-Amz-Expires=60&X-Amz-Signature=" + _hex("ps", 64),
        _hex("ps", 64)[8:40],
    ),
    "gcs signed": _within(
        "https://storage.googleapis.com/b/o?X-Goog-Algorithm=R&X-Goog-Signature=" + _hex("gs", 256),
        _hex("gs", 256)[9:60],
    ),
    "azure sas": _within(
        "https://acct.blob.core.windows.net/c?sv=2024-01-01&se=2030-01-01&sr=c&sig=" + _made("sa", 43) + "%3D",
        _made("sa", 43)[4:40],
    ),
    "azure storage": _within(
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + _made("as", 86) + "==;EndpointSuffix=x",
        _made("as", 86)[3:80],
    ),
    "slack webhook": _within("https://hooks.slack.com/services/T01/B02/" + _made("sw", 24), _made("sw", 24)),
    "discord webhook": _within("https://discord.com/api/webhooks/12345/" + _made("dw", 68), _made("dw", 68)[:40]),
    "teams webhook": _within("https://acme.webhook.office.com/webhookb2/" + _made("tm", 60), _made("tm", 60)[:40]),
    "sentry dsn": _within("https://" + _hex("sd", 32) + "@o1.ingest.sentry.io/2", _hex("sd", 32)),
    "pem": _block("RSA PRIVATE " + "KEY", "pem"),
    "openssh": _block("OPENSSH PRIVATE " + "KEY", "ossh"),
    "pgp": _block("PGP PRIVATE " + "KEY BLOCK", "pgp"),
    "ec": _block("EC PRIVATE " + "KEY", "ec"),
    "gcp service account": Secret(
        json.dumps(_GOOGLE), tuple(_key_block("x", "gcp").split("\n")[i][:20] for i in range(1, 5))
    ),
}

#: Those that only the name in front gives away: (name, secret).
NAMED: dict[str, tuple[str, Secret]] = {
    "aws secret key": ("AWS_SECRET_ACCESS_KEY", _token(_made("nas", 40))),
    "aws session token": ("AWS_SESSION_TOKEN", _token("IQoJb3JpZ2luX2Vj" + _made("nat", 200))),
    "wandb 40 hex": ("WANDB_API_KEY", _token(_hex("nwb", 40))),
    "comet": ("COMET_API_KEY", _token(_made("nco", 25))),
    "clearml": ("CLEARML_API_SECRET_KEY", _token(_made("ncl", 50))),
    "kaggle": ("KAGGLE_KEY", _token(_hex("nkg", 32))),
    "mlflow": ("MLFLOW_TRACKING_PASSWORD", _token("correcthorse9")),
    "database password": ("DB_PASSWORD", _token("hunter2hunter2")),
    "postgres variable": ("PGPASSWORD", _token("simplewordpw")),
    "redis variable": ("REDIS_PASSWORD", _token("opensesame12")),
    "azure openai": ("AZURE_OPENAI_API_KEY", _token(_hex("naz", 32))),
    "datadog": ("DD_API_KEY", _token(_hex("ndd", 32))),
    "twilio variable": ("TWILIO_AUTH_TOKEN", _token(_hex("ntw", 32))),
    "cohere": ("CO_API_KEY", _token(_made("nch", 40))),
    "ngc": ("NGC_API_KEY", _token(_made("nng", 84))),
    "jupyter": ("JUPYTER_TOKEN", _token(_hex("njp", 48))),
    "ray": ("RAY_REDIS_PASSWORD", _token("5241590000000000")),
    "django": ("SECRET_KEY", _token("django-insecure-" + _made("ndj", 40))),
    "encryption": ("ENCRYPTION_KEY", _token(_made("nek", 43) + "=")),
    "ssh passphrase": ("SSH_PASSPHRASE", _token("my-long-passphrase-9")),
    "ldap": ("LDAP_BIND_PASSWORD", _token("bindbindbind")),
    "smtp": ("SMTP_PASS", _token("smtpsmtpsmtp")),
    "slurm": ("SLURM_JWT", _token(_jwt("nsj", {"sun": "bo"}))),
}

#: Places in a program, a configuration or a log; ``{v}`` is the secret, ``{n}`` a name for it.
PLACES: dict[str, str] = {
    "constant": '{n} = "{v}"',
    "single quotes": "{n} = '{v}'",
    "environ default": 'batch_key = os.environ.get("{n}", "{v}")',
    "environ set": 'os.environ["{n}"] = "{v}"',
    "setdefault": 'os.environ.setdefault("{n}", "{v}")',
    "argparse default": 'parser.add_argument("--{n}", type=str, default="{v}", help="for the batch")',
    "argparse without name": 'parser.add_argument("--{n}", "{v}")',
    "f-string": 'url = f"batch {{x}} {n}={v}&epochs={{e}}"',
    "dict": 'config = {{"batch_size": 32, "{n}": "{v}", "epochs": 3}}',
    "keyword": 'login({n}="{v}", epochs=3)',
    "yaml": "{n}: {v}",
    "yaml quoted": '  {n}: "{v}"',
    "toml": '{n} = "{v}"',
    "json": '{{"{n}": "{v}", "batch": 3}}',
    "ini": "{n}={v}",
    "shell export": "export {n}={v}",
    "shell export quoted": "export {n}='{v}'",
    "shell before command": "{n}={v} python train.py --epochs 3",
    "flag": "python train.py --{n} {v} --epochs 3",
    "flag equals": "python train.py --{n}={v} --epochs 3",
    "docker -e": "docker run -e {n}={v} image",
    "printed": "INFO {n}: {v}",
    "printed environment": "environ({{'PATH': '/bin', '{n}': '{v}', 'EPOCHS': '3'}})",
    "table": "| {n} | {v} |",
    "xml": "<{n}>{v}</{n}>",
}
#: Places where only a shape can tell: no name of a secret stands near.
NAMELESS: dict[str, str] = {
    "bare": "{v}",
    "in brackets": "failed ({v})",
    "positional": 'login("{v}")',
    "harmless name": 'x = "{v}"',
    "curl": "curl -H 'X-Thing: {v}' https://example.com/",
    "url parameter": "https://example.com/?q={v}&epochs=3",
    "error": 'ValueError: bad value "{v}" for batch',
}


def placed(place: Callable[[str], str] | str, name: str, secret: str) -> str:
    """The secret in its place."""
    return place(secret) if callable(place) else place.format(n=name, v=secret)
