"""Words that fill name columns. Few and shared between families, so that a small vocabulary covers all of them."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = _words(
    """anna ben clara david emma felix grace henry iris jack karen leo maria nora oscar paula quinn rosa simon tara
    victor wendy yara zane alice bruno carla diego elena frank gina hugo ivan julia kevin lara marco nina otto vera
    """
)
TITLES = _words(
    """river storm garden winter shadow mirror island harbor lantern forest bridge desert thunder castle ocean meadow
    comet ember falcon glacier horizon ivory jungle kingdom legend midnight nebula orchid phoenix quest rainbow sunset
    tempest voyage whisper zenith autumn beacon canyon dawn echo fable grove haven"""
)
CITIES = _words(
    """berlin paris rome madrid oslo vienna dublin lisbon athens prague warsaw london cairo lima quito delhi tokyo seoul
    boston denver austin miami toronto sydney"""
)
GOODS = _words(
    """lamp chair table desk clock vase kettle mug plate spoon towel pillow blanket basket ladder hammer drill brush
    bucket candle curtain radio camera bottle helmet rope tent wallet scarf carpet"""
)
DISHES = _words(
    """soup salad pasta pizza curry stew pie taco burger noodles risotto omelet pancake waffle dumpling sushi ramen
    lasagna paella kebab falafel hummus tart brownie sorbet pudding muffin chowder"""
)
COURSES = _words(
    """algebra biology chemistry drama economics french geometry history italian journalism logic music physics poetry
    robotics sculpture spanish statistics swimming theology weaving writing zoology latin"""
)
SIGNS = _words(
    """alpha bravo charlie delta foxtrot golf hotel india juliet kilo lima mike november oscar papa quebec romeo sierra
    tango uniform whiskey xray yankee zulu"""
)
GROUPS = _words(
    """tigers lions eagles wolves bears sharks ravens hawks bulls rangers rovers knights pirates giants dragons comets
    rockets saints wizards vikings foxes otters cobras badgers"""
)
PETS = _words(
    """bella rocky luna daisy buddy coco molly lucky ruby pepper ginger rusty hazel biscuit clover dusty honey maple
    nugget olive peanut shadow sunny teddy willow cinnamon domino fern misty sparky"""
)
PLACES = _words(
    """north south east west central hilltop lakeside riverside oakwood elmwood ashford kingsway parkside redhill
    greenfield whitegate bluewater stonebridge millbrook fairview"""
)
