"""Captions written for this project, with word classes tagged by hand: n noun, v verb, a adjective,
r adverb, x auxiliary, o other."""

from vidcap_jax.studies.parts_of_speech import ADJECTIVE, ADVERB, AUXILIARY, NOUN, OTHER, VERB

_CLASSES = {'n': NOUN, 'v': VERB, 'a': ADJECTIVE, 'r': ADVERB, 'x': AUXILIARY, 'o': OTHER}

_TEXT = """
a/o man/n is/x playing/v a/o guitar/n
two/o women/n are/x dancing/v on/o a/o stage/n
a/o small/a dog/n runs/v quickly/r through/o the/o park/n
a/o woman/n is/x slicing/v a/o large/a onion/n with/o a/o knife/n
the/o boy/n kicked/v the/o red/a ball/n into/o the/o goal/n
someone/o is/x folding/v a/o piece/n of/o paper/n
a/o group/n of/o people/n are/x walking/v down/o the/o street/n
a/o cat/n is/x playing/v with/o a/o toy/n mouse/n
a/o chef/n stirs/v the/o soup/n slowly/r in/o a/o big/a pot/n
the/o car/n is/x driving/v very/r fast/r on/o a/o wet/a road/n
a/o young/a girl/n is/x singing/v into/o a/o microphone/n
men/n are/x running/v on/o a/o track/n
a/o person/n is/x riding/v a/o white/a horse/n
a/o cartoon/n character/n is/x talking/v to/o a/o friend/n
a/o baby/n is/x laughing/v and/o clapping/v his/o hands/n
the/o players/n are/x throwing/v a/o ball/n to/o each/o other/o
a/o man/n in/o a/o black/a suit/n is/x speaking/v to/o a/o crowd/n
a/o band/n performs/v a/o song/n live/r for/o an/o audience/n
a/o lady/n is/x putting/v on/o makeup/n
a/o monkey/n climbs/v up/o a/o tall/a tree/n
someone/o adds/v water/n to/o a/o bowl/n of/o flour/n
a/o woman/n is/x cooking/v food/n in/o the/o kitchen/n
a/o man/n jumps/v off/o a/o high/a cliff/n into/o the/o sea/n
there/o is/x a/o man/n showing/v how/o to/o cut/v potatoes/n
a/o panda/n sleeps/v on/o the/o green/a grass/n
three/o kids/n swim/v in/o a/o pool/n
a/o train/n passes/v by/o the/o old/a station/n
a/o news/n reporter/n is/x talking/v about/o the/o weather/n
a/o video/n game/n is/x being/x played/v
a/o tiger/n walks/v around/o in/o its/o cage/n
a/o man/n is/x lifting/v heavy/a weights/n at/o the/o gym/n
the/o squirrel/n eats/v a/o peanut/n
a/o couple/n is/x kissing/v on/o the/o beach/n
a/o blonde/a woman/n is/x brushing/v her/o hair/n
he/o is/x fixing/v a/o broken/a bike/n
a/o plane/n lands/v safely/r at/o the/o airport/n
a/o model/n walks/v the/o runway/n in/o a/o long/a dress/n
a/o judge/n is/x listening/v to/o a/o contestant/n
a/o turtle/n is/x slowly/r crossing/v the/o road/n
a/o blue/a circle/n moves/v to/o the/o left/n
a/o large/a yellow/a star/n is/x rotating/v
a/o green/a triangle/n grows/v larger/a
"""

CAPTIONS = [
  [(word, _CLASSES[tag]) for word, _, tag in (token.rpartition('/') for token in line.split())]
  for line in _TEXT.split('\n')
  if line
]
