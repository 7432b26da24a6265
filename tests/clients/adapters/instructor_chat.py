"""instructor over openai: a named tool_choice makes the model fill in a form."""

from typing import Any, ClassVar

import instructor
import openai
from instructor.core.exceptions import InstructorRetryException

from tests.clients.adapters.openai_chat import OpenAiChat
from tests.clients.scenario import MODEL, Place
from tests.support.upstream import Reaction, call


class InstructorChat(OpenAiChat):
    place: ClassVar[Reaction] = call("Place", city="Oslo")

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self.instructor: Any = instructor.from_openai(self.client)

    def ask(self) -> str:
        done = self.instructor.chat.completions.create(model=MODEL, messages=self.messages, response_model=None)
        return str(done.choices[0].message.content)

    def parse(self) -> Place:
        place = self.instructor.create(model=MODEL, messages=self.messages, response_model=Place, max_retries=0)
        assert isinstance(place, Place)
        return place

    def fail(self) -> int | None:
        try:
            self.parse()
        except InstructorRetryException as error:
            causes = [error.__cause__, *(one.exception for one in error.failed_attempts or ())]
            return next((one.status_code for one in causes if isinstance(one, openai.APIStatusError)), None)
        except openai.APIStatusError as error:
            return error.status_code
        return None
