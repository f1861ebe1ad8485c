"""Places of keys and passwords: the one list for what a sandbox hides and what reading asks about.

What this module promises: the names of ``holds_keys`` count wherever they stand, the paths of ``AT_HOME`` below a home
directory alone.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePath

__all__ = ["AT_HOME", "holds_keys"]

_DIRECTORIES = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".password-store", ".1password", ".mozilla"),
    *(".thunderbird", ".snowflake", ".databricks", ".databrickscfg", ".huggingface"),
)
"""Hidden in a home as a whole; asked about wherever they are."""
_DIRECTORIES_ASKED_ABOUT = (
    *(".vault.d", ".terraform.d", ".pki", ".cargo_credentials", ".gem", "gcloud", "keyrings", "keychains", "rclone"),
    *("google-chrome", "chromium", "bravesoftware", "microsoft-edge", "vivaldi", "librewolf", "doctl", "1password"),
)
"""Programs in a sandbox need other things that are in some of these; the keys in them stand below."""
_FILES = (
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".npmrc", ".yarnrc", ".pypirc"),
    *(".dockercfg", ".s3cfg", ".boto", ".vault-token", ".terraformrc", ".env"),
)
"""Hidden in a home, asked about wherever they are."""
_FILES_ASKED_ABOUT = (
    *(".htpasswd", ".envrc", ".credentials", ".condarc", "auth.json", "credentials"),
    *("credentials.json", "credentials.db", "access_tokens.db", "secrets.json", "secrets.toml", "secrets.yaml"),
    *("secrets.yml", "secret.json", "token.json", "kubeconfig", "master.key", "shadow", "gshadow", "shadow-"),
    *("gshadow-", "sudoers", "wallet.dat", "logins.json", "key3.db", "key4.db", "cookies.sqlite", "cookies"),
    *("login.keychain", "rclone.conf", "known_tokens"),
)
_FILE_ASKED_ABOUT = re.compile(
    r"""
    \.env(?:\.(?!(?:example|sample|template|dist)$).*)? | .+\.env
    | id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:_sk)?(?:[-_.](?!pub$).*)? | id_[^.]* | ssh_host_.*_key
    | .*\.(?:pem|key|p12|pfx|pkcs12|jks|keystore|kdbx?|ppk|keychain|keychain-db|tfvars|ovpn|gpg|tfstate)
    | (?:client_secret|service[-_]account|application_default_credentials).*\.json
    | \..*_history | login\ data.*
    """,
    re.VERBOSE | re.DOTALL,
)

AT_HOME = (
    *_DIRECTORIES,
    *_FILES,
    *(".snowsql", ".bluemix", ".doctl", ".fly", ".heroku", ".kaggle", ".wakatime.cfg"),
    *(".claude", ".claude.json", ".codex", ".gemini", ".anthropic", ".openai", ".pi"),
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".terraform.d/credentials.tfrc.json"),
    *(".m2/settings.xml", ".gradle/gradle.properties", ".composer/auth.json", ".nuget/NuGet"),
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens"),
    *(f".jupyter/jupyter_{what}_config.{kind}" for what in ("server", "notebook") for kind in ("json", "py")),
    *(".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub", ".config/gcloud", ".config/op"),
    *(".config/rclone", ".config/anthropic", ".config/openai", ".config/doctl", ".config/github-copilot"),
    *(".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge"),
    *(".config/vivaldi", ".config/opera", ".config/Code/User/globalStorage", ".config/Slack", ".config/Signal"),
    *(".config/sops", ".config/containers/auth.json"),
    *(".local/share/keyrings", ".local/share/python_keyring", ".local/share/kwalletd", ".local/share/jupyter/runtime"),
    *("snap/firefox", "snap/chromium", ".var/app", ".bash_history", ".zsh_history", ".local/share/fish/fish_history"),
    *(".python_history", ".psql_history", ".mysql_history", ".node_repl_history", ".sqlite_history", ".lesshst"),
    *("Library/Keychains", "Library/Cookies", "Library/Application Support/Google/Chrome"),
    "Library/Application Support/Firefox",
)
"""Paths below a home directory."""
_NAMES_OF_DIRECTORIES = frozenset((*_DIRECTORIES, *_DIRECTORIES_ASKED_ABOUT))
_NAMES_OF_FILES = frozenset((*_FILES, *_FILES_ASKED_ABOUT))


def holds_keys(path: PurePath) -> bool:
    """Return whether a path lies at or below one that by its name is there to keep secrets.

    >>> from pathlib import Path
    >>> [name for name in (".env", ".env.example", "id_rsa.pub", "a/.SSH/x", "a.txt") if holds_keys(Path(name))]
    ['.env', 'a/.SSH/x']
    """
    *directories, name = map(_folded, path.parts or ("",))
    if any(directory in _NAMES_OF_DIRECTORIES for directory in (*directories, name)):
        return True
    return name in _NAMES_OF_FILES or _FILE_ASKED_ABOUT.fullmatch(name) is not None


def _folded(name: str) -> str:
    """Fold a name as file systems compare it that ignore case and Unicode forms."""
    if name.isascii():
        return name.lower()
    kept = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
    return kept.casefold()
