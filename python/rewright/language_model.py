"""Language models that continue texts."""

import collections.abc
import numbers
import os

from . import errors, tokenizer
from ._native import _core
from .errors import UsageError
from .options import Options

_OPTIONS = Options(_core.generation_options())
_KINDS = "a prompt is a text, a list of messages, or numbers of tokens"


def _is_tokens(prompt):
    return not isinstance(prompt, (str, bytes, dict)) and all(isinstance(part, numbers.Integral) for part in prompt)


def _is_messages(prompt):
    return isinstance(prompt, (list, tuple)) and len(prompt) > 0 and all(isinstance(part, dict) for part in prompt)


def _is_one(prompt):
    return isinstance(prompt, str) or _is_messages(prompt) or _is_tokens(prompt)


class _Text:
    """The text of one sequence as it comes, without what may be the beginning of a stop text."""

    def __init__(self, stream, stops):
        self._stream, self._stops = stream, stops
        self._kept = ""
        self.has_stopped = False

    def _released(self, is_last):
        ends = [at for at in (self._kept.find(stop) for stop in self._stops) if at >= 0]
        if ends:
            self.has_stopped = True
            piece, self._kept = self._kept[: min(ends)], ""
            return piece
        keep = 0
        if not is_last:
            longest = min(len(self._kept), max((len(stop) - 1 for stop in self._stops), default=0))
            keep = next((n for n in range(longest, 0, -1) if any(stop.startswith(self._kept[-n:]) for stop in self._stops)), 0)
        piece, self._kept = self._kept[: len(self._kept) - keep], self._kept[len(self._kept) - keep :]
        return piece

    def put(self, token):
        self._kept += self._stream.put(token)
        return self._released(False)

    def rest(self):
        if self.has_stopped:
            return ""
        self._kept += self._stream.rest()
        return self._released(True)


class Completion(collections.abc.Iterator):
    """What goes on a prompt, or several: an iterator. The model computes as far as it is asked for.

    For one prompt each item is a piece of text, or a token for a prompt of tokens. For several, each item is a list with an entry
    for each prompt, which is None once its sequence has ended. A token that ends a sequence is the last one of its tokens, and
    no text.

    tokens: the new tokens so far; for several prompts, a list for each.
    prompt_seconds: from the first request until the first token.
    tokens_per_second: of each sequence, behind the first token; 0 before there are two.
    """

    def __init__(self, generation, prompts, texts, is_one):
        self._generation = generation
        self._lengths = [len(prompt) for prompt in prompts]
        self._texts = texts
        self._is_one = is_one
        self._open = [True] * len(prompts)
        self._is_done = False

    def _piece(self, number, token):
        if token is None:  # the sequence has ended
            if not self._open[number]:
                return None
            self._open[number] = False
            return None if self._texts is None else self._texts[number].rest() or None
        if self._texts is None:
            return token
        if not self._open[number]:
            return None
        piece = self._texts[number].put(token)
        self._open[number] = not self._texts[number].has_stopped
        return piece

    def __next__(self):
        while not self._is_done:
            tokens = self._generation.next() if any(self._open) else []
            self._is_done = not tokens
            pieces = [self._piece(number, token) for number, token in enumerate(tokens or [None] * len(self._lengths))]
            if not self._is_one and any(piece is not None for piece in pieces):
                return pieces
            if self._is_one and pieces[0] not in (None, ""):
                return pieces[0]
        raise StopIteration

    @property
    def tokens(self):
        new = [sequence[length:] for sequence, length in zip(self._generation.sequences, self._lengths)]
        return new[0] if self._is_one else new

    @property
    def prompt_seconds(self):
        return self._generation.prompt_seconds

    @property
    def tokens_per_second(self):
        return self._generation.tokens_per_second


class LanguageModel:
    """A language model, in a folder as onnxruntime-genai has it: genai_config.json, an ONNX model, the tokenizer's files.

        model = rewright.LanguageModel("smollm2")
        for piece in model.generate("The capital of France is", max_tokens=20):
            print(piece, end="", flush=True)

    folder: the folder's path.
    device: "cpu", "cuda", "cuda:N" or "reference"; threads: 0 for all cores.

    Texts need the package `tokenizers` and the folder's tokenizer.json, chats also `jinja2`; numbers of tokens need neither. Several
    threads may use one model, each with its own generation. Raises rewright.Error for a folder that is wrong or that nothing here
    can run.
    """

    def __init__(self, folder, *, device="cpu", threads=0):
        self.folder = os.fsdecode(folder)
        self._model = _core.open_language_model(self.folder, device, threads)
        self._tokenizer = None
        facts = self._model.facts()
        self.context_length = facts["context_length"]
        self.vocabulary = facts["vocabulary"]
        self.end_tokens = facts["ends"]

    def _with_tokenizer(self, work):
        try:
            if self._tokenizer is None:
                self._tokenizer = tokenizer.Tokenizer(self.folder)
            return work(self._tokenizer)
        except tokenizer.TokenizerError as error:
            raise errors.error_of(error.code, error.text, error.where, error.hint) from None

    def encode(self, text):
        """The tokens of a text."""
        return self._with_tokenizer(lambda t: t.encode(text))

    def decode(self, tokens):
        """The text of tokens, without special ones."""
        return self._with_tokenizer(lambda t: t.decode(tokens))

    def chat(self, messages):
        """The tokens of a conversation, by the model's chat template, up to where the answer begins. messages: a list of dicts
        such as {"role": "user", "content": "Hello"}."""
        return self._with_tokenizer(lambda t: t.chat(messages))

    def _tokens_of(self, prompt):
        if isinstance(prompt, str):
            return self.encode(prompt)
        if _is_messages(prompt):
            return self.chat(prompt)
        if isinstance(prompt, collections.abc.Iterable) and _is_tokens(prompt):
            return [int(token) for token in prompt]
        raise UsageError(_KINDS)

    def generate(self, prompt, *, stop=(), **options):
        """Goes on with a prompt: a Completion, which gives pieces of text as they are computed.

        prompt: a text; a list of messages, as for chat(); or numbers of tokens, and then the pieces are tokens. A list of several
            prompts of one kind is computed together.
        stop: a text that ends the answer where it occurs, or several; it is not part of the answer.

        Raises rewright.Error for a prompt that is longer than the model's context, or has tokens that the model does not know.

        Options, as those of `rewright complete`; what is not given follows from genai_config.json:
        {options}
        """
        if not isinstance(prompt, (str, collections.abc.Iterable)):
            raise UsageError(_KINDS)
        prompt = prompt if isinstance(prompt, str) else list(prompt)
        is_one = _is_one(prompt)
        given = [prompt] if is_one else prompt
        prompts = [self._tokens_of(one) for one in given]
        is_text = not all(_is_tokens(one) for one in given)
        if is_text and any(_is_tokens(one) for one in given):
            raise UsageError("some prompts are texts and others are tokens", hint="give one kind")
        stops = [stop] if isinstance(stop, str) else list(stop)
        if stops and not is_text:
            raise UsageError("stop texts need a prompt that is a text", hint="stop_token ends an answer at a token")
        generation = self._model.generate(prompts, _OPTIONS.pairs(options))
        texts = None
        if is_text:
            wanted = [text for text in stops if text]
            texts = [_Text(self._with_tokenizer(lambda t, p=tokens: t.stream(p)), wanted) for tokens in prompts]
        return Completion(generation, prompts, texts, is_one)

    def complete(self, prompt, **options):
        """generate() to its end: the text, or the tokens, that go on the prompt; for several prompts, a list of these."""
        completion = self.generate(prompt, **options)
        pieces = list(completion)
        if completion._texts is None:
            return completion.tokens
        if completion._is_one:
            return "".join(pieces)
        return ["".join(part or "" for part in column) for column in zip(*pieces)] or [""] * len(completion._lengths)


_OPTIONS.document(LanguageModel.generate)
