"""Numbers with their nouns, for messages."""


def counted(number: int, noun: str, form: str = '', plural: str = '') -> str:
  """A number with its noun: '1 video', '2 videos'.

  Args:
    number: how many.
    noun: in the singular.
    form: of the number, as in an f-string: ',' for '1,200 videos'.
    plural: of the noun; '': with an s.
  """
  return f'{number:{form}} {noun if number == 1 else plural or noun + "s"}'
