"""instructor over openai: a named tool_choice makes the model fill in a form."""

from typing import Any, ClassVar

import instructor
import openai
from instructor.core.exceptions import InstructorRetryException

from tests.clients.adapters.openai_chat import OpenAiChat
from tests.clients.scenario import Place
from tests.support.upstream import Reaction, call


class InstructorChat(OpenAiChat):
    place: ClassVar[Reaction] = call("Place", city="Oslo")

    def __init__(self, base_url: str, model: str) -> None:
        super().__init__(base_url, model)
        self.instructor: Any = instructor.from_openai(self.client)

    def ask(self, *, stream: bool) -> str:
        said = self.instructor.chat.completions.create(
            model=self.model, messages=self.messages, response_model=None, stream=stream
        )
        if not stream:
            return str(said.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in said if chunk.choices)

    def parse(self, *, stream: bool) -> Place:
        asked: Any = {"model": self.model, "messages": self.messages, "response_model": Place, "max_retries": 0}
        if not stream:
            return Place.model_validate(self.instructor.create(**asked))
        *_, last = self.instructor.create_partial(**asked)
        return Place(city=last.city)

    def fail(self, *, stream: bool) -> int | None:
        try:
            self.parse(stream=stream)
        except InstructorRetryException as error:
            causes = [error.__cause__, *(one.exception for one in error.failed_attempts or ())]
            return next((one.status_code for one in causes if isinstance(one, openai.APIStatusError)), None)
        except openai.APIStatusError as error:
            return error.status_code
        return None
