"""What a text-to-image model is rolled out on when the user gives no prompts: composed scenes.

A prompt is a subject of one of five kinds in a sentence of one of eight shapes. Its parts come from lists
that are gone through round and round; their lengths have no common divisor, so that no combination comes
twice before the product of the lengths is reached (Chinese remainder theorem), and neighbours share no part.
"""

COUNT = 64_000  # prompts in the list

# Of every kind: subjects | attributes | doings | places.
ANIMALS = """
red fox / barn owl / tortoise / tabby cat / highland cow / tree frog / grey wolf / hedgehog / kingfisher /
draught horse / squirrel / snow leopard / white goose / sheepdog / flamingo / brown bear / mountain goat /
donkey / raven / elephant / field mouse / otter / peacock / camel / green lizard / penguin / heron / hare /
zebra / rooster / black swan |
small / very old / curious / sleepy / rain-soaked / enormous / muddy / bright-eyed / shy / lean / dark /
playful / half-grown |
looking straight at the viewer / turning its head / resting with its eyes closed /
reflected in still water / moving fast from left to right / seen from behind /
next to a smaller one of its kind / half hidden by leaves / looking up at the sky / casting a long shadow /
surrounded by floating seeds |
on a mossy rock / in a flooded meadow / at the edge of a pine forest / beside a red tractor /
on an empty beach / in a walled garden / under a stone bridge / among tall sunflowers / on a frozen lake /
in a narrow village street / near a waterfall / on a grassy cliff above the sea / in a bamboo grove /
inside an old greenhouse / in front of a wooden barn / in a field of lavender / between market stalls /
at a desert water hole / under a flowering cherry tree
"""
PEOPLE = """
fisherman / violinist / baker / astronaut / beekeeper / ballet dancer / welder / librarian /
mountain guide / street sweeper / potter / nurse / postman / surgeon / flower seller / lighthouse keeper /
chess player / cyclist / carpenter / swimmer / tailor / shepherd / drummer / sailor / gardener /
watchmaker / fencer / mechanic / juggler / weaver / bus driver |
young / grey-haired / smiling / tired / tall / red-haired / freckled / barefoot / elderly / serious /
laughing / thoughtful / broad-shouldered |
in a yellow raincoat / holding a paper lantern / with rolled-up sleeves / wearing a striped scarf /
carrying a heavy basket / with both hands raised / in a dark green uniform / looking over one shoulder /
wrapped in a woollen blanket / with a small dog / in a wide straw hat |
on a wooden pier / in a crowded kitchen / at a tram stop / on a theatre stage / in a tidy workshop /
on a spiral staircase / in front of a blue door / in a wheat field / beside a camp fire /
at a window with plants / on a cobbled square / on a mountain pass / under a railway arch /
on a rooftop terrace / in a tiled courtyard / at the foot of a glacier / on a river ferry /
inside a glass lift / between rows of bookshelves
"""
THINGS = """
teapot / bicycle / grandfather clock / rowing boat / accordion / typewriter / leather suitcase /
steam engine / chess set / oil lamp / grand piano / hot-air balloon / wheelbarrow / telescope /
rocking chair / glass bottle / tin robot / kite / delivery van / pocket watch / wooden ladder / umbrella /
bird cage / sewing machine / hand drum / globe / candlestick / sailing ship / toy train / garden bench /
tea cup |
bright red / rusty / pale green / hand-painted / broken / polished / black and white / child-sized /
sky-blue / dusty / striped / yellow / patched |
covered in dew / tied with a yellow ribbon / filled with wild flowers / with a cat asleep beside it /
leaning to one side / overgrown with ivy / with steam rising around it / next to a pile of oranges /
under a sheet of glass / half buried in sand / with a single key lying in front of it |
on a kitchen table / in an attic / on a pebble beach / in a shop window / on a marble floor /
under an apple tree / beside a canal / on a chequered cloth / in a museum hall / on a stack of old books /
in a hayloft / in front of a brick wall / at a flea market / in tall grass / on a workbench /
in an empty white room / on a stone staircase / in shallow water / on a carpet with a geometric pattern
"""
VIEWS = """
lighthouse / mountain lake / fishing village / desert road / water mill / terraced hillside / castle /
canyon / railway station / harbour / monastery / birch wood / city square / salt marsh / windmill /
volcano / suspension bridge / country church / rice field / observatory / island / market hall /
glacier valley / farmhouse / hill fort / tea house / vineyard / waterfall / pagoda / observation tower /
cave |
remote / secluded / peaceful / mist-covered / little / huge / snow-covered / sunlit / ancient / unspoilt /
colourful / quiet / windswept |
with a single red boat / with a flock of birds overhead / with a winding path leading to it /
with one lit window / with mountains behind it / reflected in a puddle / framed by two dark trees /
with washing on a line / with tiny figures walking by / with a stone wall in the foreground /
with smoke rising in the distance |
seen from the air / seen from a low hill / seen through an open gate / at the end of a long road /
under a wide sky / above a sea of clouds / beside a slow river / at the border of a desert /
deep in a forest / on a rocky coast / in a narrow valley / on a treeless plain / behind a field of poppies /
near an old border post / across a bay / at the top of many steps / in a country of lakes /
below a chalk cliff / close to a motorway
"""
FOOD = """
loaf of bread / bowl of noodles / lemon tart / basket of plums / cactus / bouquet of tulips /
slice of watermelon / pot of basil / plate of oysters / pumpkin / stack of pancakes / orchid /
jar of honey / bunch of grapes / bonsai tree / cup of espresso / wheel of cheese / artichoke /
bowl of cherries / sunflower / dish of paella / pine cone / layer cake / fern / glass of iced tea /
head of red cabbage / mushroom / pear / bowl of soup / water lily / plate of dumplings |
fresh / rustic / colourful / very large / neatly arranged / perfect / glossy / home-grown / tempting /
simple / carefully lit / dripping wet / tiny |
beside a folded napkin / with a bee hovering above it / next to a pair of scissors / on a slate board /
in front of a blue ceramic dish / with a spoon beside it / with a knife lying next to it /
with water drops on it / surrounded by crumbs / on brown paper / with a second one out of focus behind it |
on a rough wooden table / by a rainy window / on a picnic blanket / in a street cafe / on a white plate /
on a market stall / in a farmhouse kitchen / on a balcony / on a silver tray / in a conservatory /
on a garden wall / at a campsite / on a train table / in a dark pantry / on a mosaic counter /
in a school canteen / on a black background / under a canvas awning / on a linen tablecloth
"""
SHARED = """
at dawn / in thick fog / under a full moon / in bright midday sun / during a thunderstorm /
in soft window light / at golden hour / by candlelight / in falling snow / after heavy rain /
in the blue hour / under neon lights / on an overcast day / in dappled shade / lit from behind /
in late autumn / at night under the stars |
watercolour painting / oil painting / pencil sketch / black and white photograph / woodcut print /
pastel drawing / film photograph / children's book illustration / charcoal drawing / low-poly render /
ink wash painting / vintage postcard / studio photograph / pixel art scene / stained glass window /
gouache illustration / long-exposure photograph / paper collage / botanical plate / isometric illustration /
mosaic / embroidered picture / wide-angle photograph |
muted colours and fine grain / strong contrast and deep shadows / a shallow depth of field /
bold outlines and flat colours / rich texture and visible brush strokes /
a limited palette of blue and ochre / crisp detail in every corner
"""
"""Light | media | finish, of every kind."""
SHAPES = (
    "{it}, {medium}",
    "{it} {place}",
    "{a_medium} of {it} {light}",
    "{it} {doing}, {light}",
    "{a_medium} of {it} {doing} {place}",
    "{it} {place} {light}, {medium} with {finish}",
    "{it} {doing} {place}, {light}, {medium}",
    "{a_medium} of {it} {doing} {place}, {light}, with {finish}",
)


def scenes() -> list[str]:
    """Prompts of 4 to 40 words about animals, people, things, places and food: all different, order fixed."""
    kinds = [_lists(kind) for kind in (ANIMALS, PEOPLE, THINGS, VIEWS, FOOD)]
    lights, media, finishes = _lists(SHARED)
    articles = {phrase: _article(phrase) for kind in kinds for phrase in (*kind[1], *media)}
    prompts = []
    for i in range(COUNT):
        j, kind = divmod(i, len(kinds))
        subject, attribute, doing, place = (phrases[j % len(phrases)] for phrases in kinds[kind])
        medium = media[i % len(media)]
        text = SHAPES[i % len(SHAPES)].format(
            it=f"{articles[attribute]} {attribute} {subject}",
            doing=doing,
            place=place,
            light=lights[i % len(lights)],
            medium=medium,
            a_medium=f"{articles[medium]} {medium}",
            finish=finishes[i % len(finishes)],
        )
        prompts.append(text[0].upper() + text[1:])
    return prompts


def _lists(text: str) -> list[list[str]]:
    return [phrases.split(" / ") for phrases in " ".join(text.split()).split(" | ")]


def _article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"
