"""What secrets look like: tokens known by their shape, and names behind which a secret stands. Data for `redaction`.

Every repetition is bounded or runs over one character class up to something outside it, so that matching stays
linear in the length of the text. The shapes are those that the issuers publish for secret scanning.
"""

from __future__ import annotations

import re

#: What stands in the place of a secret.
REDACTED = "<redacted>"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = "A-Za-z0-9"
_URLSAFE = r"A-Za-z0-9_\-"

#: Shapes that are a secret wherever they stand. Each must be preceded by something that is not part of a word.
_SHAPES: tuple[str, ...] = (
    # clouds
    r"(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|AIPA|ANPA|ANVA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS key ids
    rf"AIza[{_URLSAFE}]{{35}}",  # Google API
    rf"ya29\.[{_URLSAFE}.]{{20,2048}}",  # Google OAuth access
    rf"1//0[{_URLSAFE}]{{30,256}}",  # Google OAuth refresh
    rf"GOCSPX-[{_URLSAFE}]{{20,64}}",
    rf"[{_WORD}_~.]{{3}}[0-9]Q~[{_WORD}_~.-]{{31,40}}",  # Entra (Azure AD) client secret
    rf"LTAI[{_WORD}]{{12,30}}",  # Alibaba
    rf"AKID[{_WORD}]{{28,40}}",  # Tencent
    rf"do[opr]_v1_[{_WORD}]{{40,80}}",  # DigitalOcean
    rf"hv[sbr]\.[{_URLSAFE}]{{20,300}}",  # Vault
    rf"[{_WORD}]{{14}}\.atlasv1\.[{_URLSAFE}=]{{40,120}}",  # Terraform
    rf"dp\.(?:pt|st|sa|ct|scim|audit)\.[{_WORD}_.-]{{30,120}}",  # Doppler
    r"pul-[a-f0-9]{40}",  # Pulumi
    rf"tskey-[a-z]{{2,16}}-[{_URLSAFE}]{{10,120}}",  # Tailscale
    # code hosting, packages, containers
    rf"gh[pousr]_[{_WORD}_]{{30,255}}",
    rf"github_pat_[{_WORD}_]{{22,255}}",
    rf"gl(?:pat|ptt|dt|rt|rtr|cbt|ft|soat|agent|oas|imt|ffct|wt)-[{_URLSAFE}.]{{20,300}}",
    rf"ATATT3[{_URLSAFE}=]{{40,300}}",  # Atlassian
    rf"ATBB[{_URLSAFE}=]{{24,64}}",  # Bitbucket
    rf"npm_[{_WORD}]{{30,64}}",
    rf"pypi-AgE[{_URLSAFE}]{{28,512}}",
    r"rubygems_[a-f0-9]{40,64}",
    rf"dckr_(?:pat|oat)_[{_URLSAFE}]{{20,64}}",
    rf"CCIPAT_[{_URLSAFE}]{{20,120}}",  # CircleCI
    # models, data, experiment tracking
    rf"hf_[{_WORD}]{{30,64}}",
    rf"api_org_[{_WORD}]{{30,64}}",
    rf"sk-(?=[{_URLSAFE}]{{0,200}}[0-9])[{_URLSAFE}]{{20,300}}",  # OpenAI, Anthropic, OpenRouter, DeepSeek, ...
    rf"sess-[{_WORD}]{{32,64}}",
    rf"wandb_v1_[{_URLSAFE}]{{20,200}}",
    rf"nvapi-[{_URLSAFE}]{{40,120}}",
    rf"r8_[{_WORD}]{{30,64}}",  # Replicate
    rf"gsk_[{_WORD}]{{30,80}}",  # Groq
    rf"xai-[{_WORD}]{{40,120}}",
    rf"pplx-[{_WORD}]{{32,80}}",
    rf"tgp_v1_[{_URLSAFE}]{{30,80}}",  # Together
    rf"KGAT_[{_WORD}]{{24,64}}",  # Kaggle
    r"dapi[a-f0-9]{32}(?:-[0-9])?",  # Databricks
    rf"pcsk_[{_WORD}_]{{40,120}}",  # Pinecone
    rf"LSv2_(?:pt|sk)_[{_WORD}_]{{32,80}}|lsv2_(?:pt|sk)_[{_WORD}_]{{32,80}}",  # LangSmith
    # messages, payment, operations
    rf"xox[abceoprs](?:\.xox[a-z])?-[{_URLSAFE}]{{10,300}}",  # Slack
    rf"xapp-[0-9]-[{_URLSAFE}]{{20,200}}",
    rf"(?:sk|rk|pk)_(?:live|test)_[{_WORD}]{{16,255}}",  # Stripe
    rf"whsec_[{_WORD}+/=]{{24,100}}",
    rf"SG\.[{_URLSAFE}]{{16,32}}\.[{_URLSAFE}]{{32,64}}",  # SendGrid
    r"SK[a-f0-9]{32}(?![A-Za-z0-9])",  # Twilio
    r"key-[a-f0-9]{32}(?![A-Za-z0-9])",  # Mailgun
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,35}",  # Telegram
    rf"glsa_[{_WORD}_]{{32,64}}|glc_[{_WORD}+/=]{{32,400}}",  # Grafana
    rf"NRAK-[A-Z0-9]{{27}}|NRII-[{_URLSAFE}]{{20,64}}",  # New Relic
    rf"sntry[su]_[{_WORD}_+/=]{{40,400}}",  # Sentry
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",  # Postman
    rf"lin_api_[{_WORD}]{{32,64}}",
    rf"ntn_[{_WORD}]{{40,64}}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",  # Shopify
    rf"sq0(?:atp|csp)-[{_URLSAFE}]{{22,64}}",  # Square
    rf"HRKU-[{_URLSAFE}]{{30,80}}",
    r"[a-f0-9]{32}-us[0-9]{1,2}(?![A-Za-z0-9])",  # Mailchimp
    rf"xkeysib-[a-f0-9]{{64}}-[{_WORD}]{{16}}",  # Brevo
    rf"(?:M[DTjz]|N[DTjz]|O[DTj])[{_URLSAFE}]{{21,26}}\.[{_URLSAFE}]{{6}}\.[{_URLSAFE}]{{27,40}}",  # Discord bots
    rf"figd_[{_URLSAFE}]{{30,64}}",
    rf"pat[{_WORD}]{{14}}\.[a-f0-9]{{64}}",  # Airtable
    rf"AKCp[{_WORD}]{{60,80}}",  # Artifactory
    rf"ops_eyJ[{_URLSAFE}]{{80,4096}}={{0,2}}",  # 1Password
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,64}",
    # JSON web tokens, Kubernetes service accounts among them; the signature may be cut off
    rf"(?<!-)eyJ[{_URLSAFE}]{{8,4096}}\.[{_URLSAFE}]{{8,8192}}(?:\.[{_URLSAFE}]{{0,4096}})?",
)

#: What ends in a letter or digit and is no part of a word all the same: an escape of a URL, of JSON, of a terminal.
_ESCAPE = (
    r"(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\[m)|(?<=[\[;][0-9]m)|(?<=[\[;][0-9]{2}m)"
)

#: One pattern for all of them; what goes on behind a token is part of a longer one.
TOKEN = re.compile(rf"(?:(?<![{_WORD}_])|{_ESCAPE})(?:{'|'.join(_SHAPES)})[{_URLSAFE}]*")

#: An AWS key id with the secret key right behind it, as both are often pasted together.
AWS_PAIR = re.compile(
    r"(?<![A-Za-z0-9])((?:AKIA|ASIA)[A-Z0-9]{16}[\s,:;|\"'/]{1,8})([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)

#: ``scheme://user:password@host``; group 1 is the password. And ``scheme://token@host``.
URL_PASSWORD = re.compile(r"(?<=://)([^\s/:@\"'<>]{0,128}:)([^\s/@\"'<>]{1,512})(?=@)")
URL_USER_TOKEN = re.compile(r"(?<=://)([A-Za-z0-9_.~%-]{20,256})(?=@)")

#: Paths whose last part is the secret.
WEBHOOK = re.compile(
    r"((?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks|[a-z0-9-]{1,63}\.webhook\.office\.com"
    r"|open\.feishu\.cn/open-apis/bot/v2/hook|oapi\.dingtalk\.com/robot)/)([^\s\"'<>)]{8,512})"
)

#: Words before a credential that are not assignments: HTTP schemes, log-in commands, netrc, curl.
BEARER = re.compile(r"(?i)(?<![A-Za-z0-9_])((?:bearer|basic|digest|negotiate)[ \t]{1,4})([A-Za-z0-9._~+/=:-]{12,8192})")
COMMAND_SECRET = re.compile(
    r"(?i)(?<![A-Za-z0-9_-])("
    r"wandb[ \t]{1,4}login(?:[ \t]{1,4}--?[a-z-]{1,32}(?:=\S{0,128})?){0,6}[ \t]{1,4}(?=[a-z0-9_]{32})"
    r"|sshpass[ \t]{1,4}-p[ \t]{0,4}"
    r"|mysql(?:dump|admin)?[ \t](?:[^\n]{0,200}?[ \t])?-p(?=[^\s])"
    r"|docker[ \t]{1,4}login[^\n]{0,120}?[ \t]-p[ \t]{1,4}"
    r"|redis-cli(?:[ \t][^\n]{0,200}?)?[ \t]-a[ \t]{1,4}"
    r"|(?:curl|wget|http|https)(?:[ \t][^\n]{0,300}?)?[ \t](?:-u|--user|--proxy-user|-a|--auth)"
    r"[ \t=]{1,4}[\"']?[^\s:\"']{1,64}:"
    r"|username[\"']?\s{0,3}[:=]\s{0,3}[\"']?[\w.@-]{1,64}[\"']?\s{0,3},\s{0,12}"
    r"[\"']?key[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?=[0-9a-f]{32})"
    r"|[\w.]{0,64}login\w{0,32}\([ \t]{0,4}[\w.]{0,64}key[ \t]{0,4}=[ \t]{0,4}[\"'](?=[0-9a-f]{32})"
    r"|(?:login|account)[ \t]{1,4}\S{1,128}[ \t]{1,4}password[ \t]{1,4}"
    r")([^\s\"']{1,512})"
)
PIPED = re.compile(
    r"((?:echo|printf)[ \t]{1,4}(?:-n[ \t]{1,4})?[\"']?)([^\s\"'|]{1,512})"
    r"(?=[\"']?[ \t]{0,4}\|[^\n]{0,120}(?:password-stdin|sudo[ \t]{1,4}-S|passphrase-fd|with-token))"
)
COOKIE = re.compile(r"(?i)(?<![A-Za-z0-9_])((?:set-)?cookie[\"']?[ \t]{0,3}:[ \t]{0,3})([^\r\n]{1,8192})")

#: A name and what joins it to its value, without the value: ``name=``, ``"name": ``, ``name => ``.
NAME_AND_JOIN = re.compile(
    r"(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]{2,96})(?:\\?[\"'])?\]?[ \t]{0,8}"
    r"(=>|:=|==|:(?!-)|=|%3[dD]|\\u003[dD])(?!//)[ \t]{0,8}"
)

#: ``--name value`` on a command line, also as the items of a printed list.
FLAG_AND_SPACE = re.compile(
    r"(?<![A-Za-z0-9_.-])(--?[A-Za-z][A-Za-z0-9_-]{1,64})([\"'],[ \t]{0,4}|[ \t]{1,8})(?![ \t-])"
)

#: ``name: NAME`` followed by ``value:``, as environment variables stand in Kubernetes manifests.
NAMED_VALUE = re.compile(
    r"(?i)(?<![A-Za-z0-9_])name[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?([A-Za-z0-9_.-]{2,96})[\"']?[ \t]{0,3},?[ \t]{0,3}"
    r"(?:\r?\n[^\n:]{0,64}?)?[\"']?(?<![A-Za-z0-9_])value[\"']?[ \t]{0,3}[:=][ \t]{0,3}"
)

#: ``"NAME", "value"``, as in ``os.environ.get("NAME", "value")``.
NAMED_PAIR = re.compile(
    r"[\"']([A-Za-z0-9_.-]{2,96})\\?[\"'][ \t]{0,4},[ \t]{0,4}(?:\w{1,16}[ \t]{0,2}=[ \t]{0,2})?(?=[rbuf]{0,2}\\?[\"'])"
)

#: ``"--name", ...``: an option that is declared, with its ``default=`` some way behind.
OPTION = re.compile(r"[\"']-{0,2}([A-Za-z][A-Za-z0-9_-]{1,64})\\?[\"'](?=[ \t]{0,4}[,)])")
OPTION_DEFAULT = re.compile(r"(?<![A-Za-z0-9_])default[ \t]{0,4}=[ \t]{0,4}")
OPTION_CHARS = 400
OPTION_ENDS = re.compile(r"add_argument|option\(|Option\(")

#: ``name: type = value`` and ``name: type = field(default=value``.
ANNOTATED = re.compile(
    r"(?<![A-Za-z0-9_.-])([A-Za-z_][A-Za-z0-9_]{1,95})[ \t]{0,4}:[ \t]{0,4}"
    r"[A-Za-z_][\w.\[\], |]{0,60}?[ \t]{0,4}=[ \t]{0,4}"
    r"(?:(?:[a-z]{1,20}\.)?[Ff]ield\([ \t]{0,4}(?:default[ \t]{0,4}=[ \t]{0,4})?)?"
)

#: A name in a cell of a printed table, an element of XML, an instruction of a container file or a C shell.
CELL = re.compile("[|\u2502\u2503][ \t]{0,8}([A-Za-z0-9_.-]{2,96})[ \t]{0,80}[|\u2502\u2503][ \t]{0,8}")
ELEMENT = re.compile(r"<([A-Za-z][A-Za-z0-9_.-]{1,95})>[ \t]{0,4}")
SPACED = re.compile(
    r"(?<![A-Za-z0-9_])(?:ENV|ARG|setenv|config(?:ure)?[ \t]{1,4}set)[ \t]{1,8}([A-Za-z0-9_]{2,96})[ \t]{1,8}(?![ \t=])"
)

#: What counts where a variable has no value: ``${NAME:-value}``, ``name = ... or "value"``.
EXPANSION = re.compile(r"\$\{([A-Za-z0-9_]{2,96}):?[-=]")
ALTERNATIVE = re.compile(
    r"(?<![A-Za-z0-9_])or[ \t]{1,4}(?=[rbuf]{0,2}[\"'])|\|\|[ \t]{0,4}(?=[\"'])|\?\?[ \t]{0,4}(?=[\"'])"
)
ALTERNATIVE_CHARS = 160

#: Between two literals that make one text: ``"a" + "b"``, ``"a" "b"``, on one line or two.
JOINT = re.compile(
    r"([\"'])[ \t]{0,40}(?:\+[ \t]{0,8})?(?:\\?\r?\n[ \t]{0,160}(?:\+[ \t]{0,8})?)?[rbufRBUF]{0,2}\1(?![\"'])"
)

#: A bracket before the literals of which a value is put together; a block's mark, an anchor or a tag of YAML.
GROUP = re.compile(
    r"\([ \t]{0,8}(?:\r?\n[ \t]{0,160})?(?=[rbufRBUF]{0,2}[\"'])|[|>][+-]?[ \t]{0,4}\r?\n[ \t]{1,160}"
    r"|[&!][A-Za-z0-9_!.-]{1,40}[ \t]{1,8}"
)

#: A value: quoted (escapes allowed) or up to white space or punctuation.
VALUE = re.compile(
    r"""(?P<open>\\?(?:[rbuf]{0,2}(?=["'])["'])?)(?:Bearer[ ]|Basic[ ]|Token[ ]|token[ ]|bearer[ ]|basic[ ])?"""
    r"""(?P<value>(?<=\\["'])[^"'\\\r\n]{1,512}|(?<=")(?:\\[^\r\n]|[^"\\\r\n]){1,512}"""
    r"""|(?<=')(?:\\[^\r\n]|[^'\\\r\n]){1,512}|[^\s"',;&|)}\]><\\]{1,512})"""
)

#: Names whose value is secret whatever it looks like (compared word by word, see `redaction`).
PASSWORD_WORDS = _words(
    """
    password passwd passphrase passcode passwort pwd pgpassword mysqlpwd sshpass userpassword dbpassword
    """
)
#: ``DB_PASS`` and the like; plain ``pass`` counts passes of a compiler or over the data.
PASS_OWNERS = _words(
    """
    db database smtp mail email user root admin mysql pg postgres redis mongo ftp ldap proxy registry login http
    vpn ssh sudo auth rabbitmq kafka nexus docker git
    """
)
#: What makes a name ending in ``key`` the name of a secret.
KEY_OWNERS = _words(
    """
    api access secret private auth account encryption encrypt signing sign client master license subscription
    service storage ssh session deploy app application consumer admin hmac aes jwt wandb comet neptune openai
    anthropic azure aws gcp s3 minio ceph hf huggingface mlflow clearml swanlab tracking shared kaggle
    """
)
#: Tokens of text models, which are no secrets.
TEXT_TOKEN_WORDS = _words(
    """
    pad eos bos unk mask sep cls image video audio speech text special start end stop max min num n per next
    last first total prompt completion input output mean avg vocab eot im system assistant begin decoder encoder
    forced suppress no pre post boi eoi fim prefix suffix middle
    """
)
