"""Secrets go, ordinary log text stays, lines stay where they are, and no input makes it slow."""

from __future__ import annotations

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompts.redaction import REDACTED, redact, redact_tree

# Assembled at run time, so that no scanner takes this file for a leak.
A36 = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
HEX32 = "0123456789abcdef" * 2
B64 = base64.b64encode(bytes(range(64))).decode()
JWT = ".".join(["eyJ" + "hbGciOiJIUzI1NiJ9", "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0", A36])
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + "\n".join([B64[:64]] * 3) + "\n-----END RSA PRIVATE " + "KEY-----"

SHAPES = {
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google api": "AIza" + A36[:35],
    "google oauth": "ya29." + A36,
    "google client": "GOCSPX-" + A36[:28],
    "azure ad": "abc8Q~" + A36[:34],
    "alibaba": "LTAI" + A36[:20],
    "digitalocean": "dop_v1_" + HEX32 * 2,
    "vault": "hvs." + A36,
    "terraform": A36[:14] + ".atlasv1." + A36 + A36,
    "tailscale": "tskey-auth-" + A36[:24],
    "github classic": "ghp_" + A36,
    "github fine": "github_pat_" + A36,
    "gitlab": "glpat-" + A36[:20],
    "npm": "npm_" + A36,
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + A36,
    "docker": "dckr_pat_" + A36[:27],
    "hugging face": "hf_" + A36[:34],
    "openai": "sk-proj-" + A36 + "-" + A36,
    "openai old": "sk-" + A36 + A36[:12],
    "anthropic": "sk-ant-api03-" + A36 + "_" + A36,
    "wandb new": "wandb_v1_" + A36,
    "nvidia": "nvapi-" + A36 + A36[:28],
    "replicate": "r8_" + A36,
    "groq": "gsk_" + A36 + A36[:16],
    "databricks": "dapi" + HEX32,
    "langsmith": "lsv2_pt_" + HEX32 + "_" + HEX32[:10],
    "slack": "xoxb-" + "123456789012-" + A36[:24],
    "slack app": "xapp-1-" + A36,
    "stripe": "sk_live_" + A36[:24],
    "stripe webhook": "whsec_" + A36[:32],
    "sendgrid": "SG." + A36[:22] + "." + (A36 + A36)[:43],
    "twilio": "SK" + HEX32,
    "mailgun": "key-" + HEX32,
    "telegram": "123456789:AA" + A36[:33],
    "grafana": "glsa_" + A36[:32] + "_" + HEX32[:8],
    "new relic": "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ1",
    "postman": "PMAK-" + HEX32[:24] + "-" + HEX32 + "ab",
    "shopify": "shpat_" + HEX32,
    "square": "sq0atp-" + A36[:22],
    "age": "AGE-SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2,
    "jwt": JWT,
}

#: Text in which ``{}`` is the secret, and a secret that only its place gives away.
PLACES = {
    "aws secret": ("aws_secret_access_key = {}", B64[:40]),
    "aws env": ("export AWS_SECRET_ACCESS_KEY='{}'", B64[:40]),
    "azure storage": ("AccountName=store;AccountKey={};EndpointSuffix=core.windows.net", B64),
    "azure sas": ("https://store.blob.core.windows.net/c/b?sv=2024-01-01&sig={}&se=2030", B64[:43]),
    "wandb env": ("WANDB_API_KEY={} python train.py", HEX32 + HEX32[:8]),
    "wandb login": ("$ wandb login {}", HEX32 + HEX32[:8]),
    "wandb relogin": ("wandb login --relogin {}", HEX32 + HEX32[:8]),
    "netrc": ("machine api.wandb.ai login user password {}", "hunter2"),
    "url": ("postgresql+psycopg://job:{}@db.internal:5432/runs", "pa55-w0rd"),
    "url plain word": ("redis://:{}@cache:6379/0", "letmein"),
    "git url": ("git clone https://{}@github.com/acme/train.git", "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"),
    "bearer": ("> Authorization: Bearer {}", "abc123def456ghi789"),
    "bearer in list": ("headers=[('authorization', 'Bearer {}')]", "abc123def456ghi789"),
    "basic": ("authorization: Basic {}", base64.b64encode(b"user:secretpw").decode()),
    "x-api-key": ("x-api-key: {}", A36),
    "cookie": ("Set-Cookie: {}", "session=abc; Path=/"),
    "flag": ("python train.py --password {} --epochs 3", "hunter2"),
    "flag equals": ("python train.py --db-password={} --epochs 3", "hunter2"),
    "flag token": ("python push.py --token {} --epochs 3", A36),
    "flag in list": ("argv: ['--api-key', '{}', '--x']", A36),
    "json": ('{{"user": "me", "password": "{}", "n": 1}}', 'correct horse, \\"battery\\"'),
    "json in json": ('{{"body": "{{\\"password\\": \\"{}\\", \\"n\\": 1}}"}}', "hunter2"),
    "python dict": ("{{'api_key': '{}'}}", A36),
    "python code": ('openai.api_key = "{}"', A36),
    "camel case": ("clientSecret: {}", A36),
    "yaml": ("  db_passwd: {}", "hunter2"),
    "docker auth": ('"auth": "{}"', base64.b64encode(b"user:secretpw1").decode()),
    "kubernetes": ("- name: DB_PASSWORD\n  value: {}\n- name: OTHER\n  value: kept", "hunter2"),
    "curl": ("+ curl -sS -u me:{} https://host/path", "hunter2"),
    "sshpass": ("sshpass -p {} ssh node1", "hunter2"),
    "slack hook": ("POST https://hooks.slack.com/services/{}", "T00000000/B00000000/" + A36[:24]),
    "mlflow": ("MLFLOW_TRACKING_PASSWORD={}", "plainword"),
    "capital name": ("COMET_API_KEY={}", "abcdefghijkl0mnop"),
    "pg": ("PGPASSWORD={} psql -h db", "simple"),
    "dollar": ("password={}", "$ecret!1"),
    "nested": ("config: db: password={}", "hunter2"),
    "alternative": ('api_key = os.environ.get("KEY") or "{}"', A36),
    "alternative password": ('password = args.password or "{}"', "hunter2"),
    "expansion": ("login ${{WANDB_API_KEY:-{}}}", HEX32 + HEX32[:8]),
    "expansion assigned": ("export DB_PASSWORD=${{DB_PASSWORD:-{}}}", "hunter2"),
    "anchor": ("password: &pw {}", "hunter2"),
    "tag": ("password: !!str {}", "hunter2"),
    "configure": ("aws configure set aws_secret_access_key {}", B64[:40]),
    "piped": ("echo {} | docker login -u me --password-stdin", "hunter2"),
    "kaggle": ('{{"username":"me","key":"{}"}}', HEX32),
    "url escape": ("https://host/?next=a%26password%3D{}", "hunter2"),
    "json escape": (r'"q": "api_key\u003d{}"', A36),
    "container": ("ENV API_TOKEN {}", A36),
    "annotated": ('hub_token: Optional[str] = "{}"', A36),
    "field": ('api_key: str = field(default="{}")', A36),
}

ORDINARY = [
    "commit 3932a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "run id 123e4567-e89b-12d3-a456-426614174000 resumed from ckpt/step_12000.pt",
    "GPU-5b8f7b1c-9f0e-4d3a-8b1a-2f3c4d5e6f70 NVRM: Xid (PCI:0000:3b:00): 79",
    "num_tokens=4096 max_tokens: 512 tokens_per_second=123456.7 tokens: 1.2B",
    "pad_token='[PAD]' eos_token=</s> bos_token_id=1 tokenizer=meta/Llama-2-7b image_token=<image>",
    "loading tokenizer.model from /data/tokenizers/spm_32k_v2.model token_type_ids=None",
    "RuntimeError: Missing key(s) in state_dict: 'model.layers.0.self_attn.q_proj.weight'",
    "KeyError: 'input_ids_2048'; sort_key=loss_val_1; primary key: run_0001; cache_key=ab12cd34ef56",
    "forward_pass=12.3ms first_pass: 2 passed=17 bypass: true pass 3/10",
    "PWD=/home/user/run OLDPWD=/tmp SSH_AUTH_SOCK=/tmp/ssh-abc123/agent.1",
    'MountVolume.SetUp failed for volume "x": secret "wandb-key-2" not found',
    "token file: /var/run/secrets/kubernetes.io/serviceaccount/token",
    "wandb: W&B API key is configured. Use `wandb login --relogin` to force relogin",
    "pip install git+https://github.com/acme/lib@3932a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6",
    "tcp://10.0.0.1:29500 rank0 host=node-a07.cluster.local:29500",
    'token = os.environ["HF_TOKEN"]; api_key=args.api_key; password=getpass.getpass()',
    "Authorization failed: 403 Client Error. Basic training configuration follows",
    "[E211 03:51:14.402113871 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog SeqNum=5433, OpType=_REDUCE_SCATTER_BASE",
    "2024-05-01T10:00:00Z user@host.example.com: mailto:ops@example.com",
    "sk-learn-compatible-estimator-interface, task-specific-pretraining-recipe-large",
    'api_key: ""  password: None  secret: ${WANDB_SECRET}',
    "HF_TOKEN: missing",
    "signature = inspect.signature(model.forward); sig: inspect.Signature, token = torch.tensor([-1])",
    "src_token = ConcatSentencesDataset(input_option, input0); self.reg_token = nn.Parameter(torch.empty(1, 2))",
    'os.environ["AWS_SECRET_ACCESS_KEY"] = aws_secret_access_key; print(f"per token: {avg_gen:.2f}s")',
    'parser.add_argument("--token", default=None, help="its"); p.add_argument("--password-file", default="a.txt")',
    '("password", "user", "email"), ["token", "epochs"], {"key": "value"}, d.get("token", "none")',
    "| api_key | string | required |\n| tokens | 512 | int |",
    "class A: pad_token: str = '[PAD]'; max_tokens: int = 512; token: Optional[str] = None",
    "x = 'transformers' + 'models'; y = \"sha256\" \"\\nsum\"",
    'x = args.x or "hunter2"; export DATA=${DATA:-/data/train2}; echo $PW | docker login --password-stdin',
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "md5 d41d8cd98f00b204e9800998ecf8427e  IMAGENET1K_V2 convnext_base.fb_in22k_ft_in1k_384 Qwen2.5-0.5B-Instruct",
    "https://dev.to/iamtekson/publish-package-to-pypi-and-release-new-version-using-github-actions-108k",
]


@pytest.mark.parametrize("kind", SHAPES)
def test_a_token_is_found_by_its_shape(kind: str) -> None:
    token = SHAPES[kind]
    for text in (f"error: got {token} from server", f'"{token}"', f"x={token}&y=1", token, f"({token})"):
        shown = redact(text)
        assert token not in shown and token[-8:] not in shown, shown
        assert REDACTED in shown


@pytest.mark.parametrize("kind", PLACES)
def test_a_secret_is_found_by_its_place(kind: str) -> None:
    template, secret = PLACES[kind]
    text = template.format(secret)
    shown = redact(text)
    assert secret not in shown, shown
    assert REDACTED in shown
    before, _, after = template.replace("{{", "{").replace("}}", "}").partition("{}")
    assert shown.startswith(before) and shown.endswith(after), "only the secret goes"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_log_text_stays(text: str) -> None:
    assert redact(text) == text


def test_key_blocks_go_and_lines_stay() -> None:
    cut = PEM.rsplit("\n", 1)[0]
    for block in (PEM, cut, PEM.replace("\n", "\r\n"), PEM.replace("\n", "\\n")):
        text = f"before\n{block}\nstep 1 loss 2.0"
        shown = redact(text)
        assert "AAECAwQ" not in shown and B64[:16] not in shown
        assert shown.count("\n") == text.count("\n")
        assert shown.startswith("before\n") and shown.endswith("\nstep 1 loss 2.0")
    public = PEM.replace("RSA PRIVATE", "PUBLIC")
    assert redact(public) == public


def test_an_aws_pair_goes_whole() -> None:
    assert redact(f"{SHAPES['aws']} {B64[:40]}") == f"{REDACTED} {REDACTED}"


def test_trees() -> None:
    tree = {"password": "hunter2", "n": 3, "lines": [f"x {SHAPES['slack']}", None], "ok": {"text": "loss 2.0"}}
    assert redact_tree(tree) == {
        "password": REDACTED,
        "n": 3,
        "lines": [f"x {REDACTED}", None],
        "ok": {"text": "loss 2.0"},
    }


@given(st.text(max_size=300))
def test_any_text_keeps_its_lines_and_a_second_pass_changes_nothing(text: str) -> None:
    once = redact(text)
    assert once.count("\n") == text.count("\n")
    assert redact(once) == once


@given(
    st.sampled_from(sorted(SHAPES)),
    st.text(alphabet=st.characters(blacklist_categories=("L", "N"), blacklist_characters="_-"), max_size=20),
    st.text(alphabet=st.characters(blacklist_categories=("L", "N"), blacklist_characters="_-+/=.~"), max_size=20),
)
def test_no_token_survives_any_surroundings(kind: str, before: str, after: str) -> None:
    assert SHAPES[kind] not in redact(before + SHAPES[kind] + after)


@pytest.mark.parametrize(
    "unit",
    ["password=/", "-eyJaaaaaaaaa", "://a", "a:b@", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n",
     "curl -u ", "sk-", "a.", "token=", "--token ", "name: a\nvalue", '\\"', "login a ", "://::", "Bearer ",
     "a" * 97, " ", '""', '"a"+', '"--key", ', "'password','x'", "token: a ", "token: a[b, c] ", "| api_key |",
     "<token>", "ENV a ", "mysql -p", "aGVsbG8gd29ybGQ6 ", "aGVs", "default=", '"ghp_"\n"', "token: |\n  "],
)  # fmt: skip
def test_time_is_linear_whatever_the_text(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            redact(text)
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(20_000), seconds(80_000)
    assert large < max(0.2, 12 * small), (small, large)
    assert large < 2.0


def test_json_stays_json() -> None:
    text = json.dumps({"password": 'a"b\\c', "list": ["--token", A36], "ok": 1})
    shown = json.loads(redact(text))
    assert shown["ok"] == 1 and shown["password"] == REDACTED and shown["list"][1] == REDACTED


@pytest.mark.parametrize(
    "text",
    [
        "curl -u bob:S3cr3tPW10 https://example.org",
        "redis-cli -a S3cr3tPW10 ping",
        "http -a bob:S3cr3tPW10 GET example.org",
        'wandb_login(key = "0123456789abcdef0123456789abcdef01234567")',
    ],
)
def test_passwords_of_commands_go(text: str) -> None:
    assert not any(secret in redact(text) for secret in ("S3cr3tPW10", "0123456789abcdef"))
