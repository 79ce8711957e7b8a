"""Texts to tokens and back, by the files of a language model's folder: tokenizer.json, by the package `tokenizers`, and a chat
template, by `jinja2`.

`rewright complete` runs this file by itself, as a program that answers a line of JSON by another (see `serve`).
"""

import json
import os
import sys

_MOST_BYTES = 1 << 28  # of a file


class TokenizerError(Exception):
    """code: "bad_input", or "missing" for a package; hint: what to do about it."""

    def __init__(self, code, text, where="", hint=""):
        super().__init__(text)
        self.code, self.text, self.where, self.hint = code, text, where, hint


def _read(path):
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise TokenizerError("bad_input", "is too large", path)
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeError) as error:
        raise TokenizerError("bad_input", f"cannot be read: {error}", path) from None


class _Stream:
    """Pieces of text of tokens that come one after the other. A character may need several of them."""

    def __init__(self, tokenizer, before):
        from tokenizers.decoders import DecodeStream

        self._tokenizer = tokenizer
        self._before = list(before)
        self._tokens = []
        self._written = 0
        self._stream = DecodeStream(ids=self._before, skip_special_tokens=True)

    def put(self, token):
        """The text that is certain now."""
        self._tokens.append(token)
        piece = self._stream.step(self._tokenizer, token) or ""
        self._written += len(piece)
        return piece

    def rest(self):
        """The text of tokens at the end that make no whole character."""
        head = self._tokenizer.decode(self._before, skip_special_tokens=True)
        return self._tokenizer.decode(self._before + self._tokens, skip_special_tokens=True)[len(head) + self._written :]


class Tokenizer:
    """The tokenizer and the chat template of a folder. Raises TokenizerError."""

    def __init__(self, folder):
        self._folder = folder
        path = os.path.join(folder, "tokenizer.json")
        if not os.path.isfile(path):
            raise TokenizerError("bad_input", "there is no such file", path, "without a tokenizer, give numbers of tokens")
        try:
            import tokenizers
        except ImportError:
            raise TokenizerError(
                "missing", "the Python package tokenizers is not installed", path, "pip install tokenizers, or give numbers of tokens"
            ) from None
        text = _read(path)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package raises nothing more special
            raise TokenizerError("bad_input", f"is no tokenizer: {error}", path) from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, text, special=True):
        """Tokens of a text. special: with those that the tokenizer puts before and behind every text."""
        return self._tokenizer.encode(text, add_special_tokens=special).ids

    def decode(self, tokens):
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def stream(self, before=()):
        """An object whose put(token) returns the next piece of text, and rest() what is left at the end. before: tokens of the
        text that the tokens go on."""
        return _Stream(self._tokenizer, before)

    def _settings(self):
        path = os.path.join(self._folder, "tokenizer_config.json")
        if not os.path.isfile(path):
            return {}
        try:
            settings = json.loads(_read(path))
        except (ValueError, RecursionError):
            settings = None
        if not isinstance(settings, dict):
            raise TokenizerError("bad_input", "is no JSON object", path)
        return settings

    def _template(self, settings):
        path = os.path.join(self._folder, "chat_template.jinja")
        if os.path.isfile(path):
            return _read(path), path
        template = settings.get("chat_template")
        if isinstance(template, list):  # several with names
            named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
            template = named.get("default")
        if not isinstance(template, str):
            raise TokenizerError(
                "bad_input", "there is no chat template", self._folder, "it stands in chat_template.jinja or tokenizer_config.json"
            )
        return template, os.path.join(self._folder, "tokenizer_config.json")

    def chat(self, messages):
        """The tokens of a conversation, up to where the answer begins. messages: dicts with "role" and "content"."""
        settings = self._settings()
        template, path = self._template(settings)
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise TokenizerError("missing", "the Python package jinja2 is not installed", path, "pip install jinja2") from None

        def refuse(text):
            raise TemplateError(text)

        def token(name):  # a text, or an object with one
            value = settings.get(name)
            return value.get("content", "") if isinstance(value, dict) else value or ""

        # As transformers fills templates in: what they may rely on.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        environment.globals["raise_exception"] = refuse
        names = ("bos_token", "eos_token", "unk_token", "pad_token")
        try:
            text = environment.from_string(template).render(
                messages=messages, add_generation_prompt=True, **{name: token(name) for name in names}
            )
        except (TemplateError, TypeError, ValueError, KeyError, RecursionError, ArithmeticError) as error:
            raise TokenizerError("bad_input", f"the chat template cannot be filled in: {error}", path) from None
        return self.encode(text, special=False)


def _answer(request, state):
    kind = request["op"]
    if kind == "open":
        state["tokenizer"] = Tokenizer(request["folder"])
        return {}
    if kind == "encode":
        tokens = state["tokenizer"].encode(request["text"])
    elif kind == "chat":
        tokens = state["tokenizer"].chat([{"role": "user", "content": request["text"]}])
    elif kind == "put":
        return {"text": state["stream"].put(request["token"])}
    else:
        return {"text": state["stream"].rest()}
    state["stream"] = state["tokenizer"].stream(tokens)
    return {"tokens": tokens}


def serve():
    """Answers requests, one line of JSON each: {"op": "open", "folder": F}; {"op": "encode", "text": T} or {"op": "chat", ...} ->
    {"tokens": [...]}; then {"op": "put", "token": N} and {"op": "rest"} -> {"text": T}. A failure is {"failure": {...}}."""
    state = {}
    for line in sys.stdin:
        try:
            reply = _answer(json.loads(line), state)
        except TokenizerError as error:
            reply = {"failure": {"code": error.code, "text": error.text, "where": error.where, "hint": error.hint}}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve()
