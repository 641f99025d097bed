"""The fourteen families of databases. Two are held out by default: no training or held-out task ever shows them."""

from turngate.envs.sql.generated.families_schema import (
    DatabaseFamily,
    category,
    date,
    link,
    names,
    real,
    table,
    whole,
    year,
)
from turngate.envs.sql.generated.families_words import (
    CITIES,
    COURSES,
    DISHES,
    GOODS,
    GROUPS,
    PEOPLE,
    PETS,
    PLACES,
    SIGNS,
    TITLES,
)

_LANDS = "france italy spain norway japan brazil canada egypt"
_TOWNS = "berlin paris rome oslo lima cairo"

# Rows of a table relative to the requested number: what others refer to, what most questions are about, what refers.
_PARENT, _MAIN, _CHILD = 0.8, 1.3, 2.0

# fmt: off
_LIBRARY = (
    table(
        "authors", "author", _PARENT,
        names(PEOPLE), category("country", _LANDS), year("born", 1930, 1995, says="year of birth"),
        whole("awards", 0, 9, says="number of awards", nulls=True),
    ),
    table(
        "books", "book", _MAIN,
        names(TITLES, "title"), link("author_id", "authors"),
        category("genre", "poetry crime fantasy romance travel science"),
        whole("pages", 40, 99, says="number of pages"), real("price", 3, 40, nulls=True),
        date("published", says="publication date"),
    ),
    table(
        "members", "member", _PARENT,
        names(PEOPLE), category("city", _TOWNS), whole("age", 16, 80, nulls=True), date("joined", says="join date"),
    ),
    table(
        "loans", "loan", _CHILD,
        link("book_id", "books"), link("member_id", "members"), date("loaned", says="loan date"),
        whole("days", 1, 60, says="number of days"), real("fine", 1, 20, nulls=True),
        category("state", "open returned lost late"), date("returned", says="return date", nulls=True),
    ),
)

_SHOP = (
    table(
        "customers", "customer", _PARENT,
        names(PEOPLE), category("city", _TOWNS), whole("age", 16, 80, nulls=True),
        real("credit", 0, 90), date("joined", says="join date"),
    ),
    table(
        "products", "product", _MAIN,
        names(GOODS), category("colour", "red green blue black white brown"), real("price", 2, 90),
        whole("stock", 0, 99), real("weight", 1, 30, nulls=True), date("released", says="release date"),
    ),
    table(
        "orders", "order", _CHILD,
        link("customer_id", "customers"), link("product_id", "products"), whole("quantity", 1, 40),
        category("status", "open paid shipped cancelled"),
        real("discount", 1, 20, nulls=True), date("ordered", says="order date"),
    ),
)

_SCHOOL = (
    table(
        "teachers", "teacher", _PARENT,
        names(PEOPLE), category("office", "north south east west"), real("salary", 20, 90),
        whole("children", 0, 6, says="number of children", nulls=True), date("hired", says="hiring date"),
    ),
    table(
        "courses", "course", _MAIN,
        names(COURSES, "title"), link("teacher_id", "teachers"), category("stage", "basic middle advanced expert"),
        whole("hours", 10, 90, says="number of hours"), date("started", says="start date"),
        whole("seats", 8, 60, says="number of seats", nulls=True),
    ),
    table(
        "students", "student", _MAIN,
        names(PEOPLE), category("house", "red green blue white"), year("born", 1995, 2010, says="year of birth"),
        real("height", 140, 190, nulls=True),
    ),
    table(
        "exams", "exam", _CHILD,
        link("student_id", "students"), link("course_id", "courses"), whole("score", 1, 99),
        whole("bonus", 1, 9, nulls=True), category("form", "oral written project"), date("taken", says="exam date"),
    ),
)

_HOSPITAL = (
    table(
        "doctors", "doctor", _PARENT,
        names(PEOPLE), category("field", "surgery eyes heart skin children"),
        whole("experience", 1, 40, says="years of experience"), real("rating", 1, 10, nulls=True),
    ),
    table(
        "patients", "patient", _MAIN,
        names(PEOPLE), category("city", _TOWNS), whole("age", 1, 95), real("weight", 40, 99, nulls=True),
        category("blood", "a b ab zero", says="blood type"), date("insured", says="insurance date"),
    ),
    table(
        "visits", "visit", _CHILD,
        link("doctor_id", "doctors"), link("patient_id", "patients"), date("visited", says="visit date"),
        real("cost", 10, 90), whole("nights", 1, 14, says="number of nights", nulls=True),
        category("reason", "pain fever check injury cough"),
    ),
)

_AIRLINE = (
    table(
        "planes", "plane", _PARENT,
        names(PLACES), category("maker", "airbus boeing embraer fokker"), date("bought", says="purchase date"),
        whole("seats", 20, 99, says="number of seats"), real("length", 20, 80, nulls=True),
    ),
    table(
        "flights", "flight", _MAIN,
        names(SIGNS, "code"), link("plane_id", "planes"), category("destination", _TOWNS),
        whole("delay", 1, 90, nulls=True), real("hours", 1, 14, says="number of hours"),
        date("departed", says="departure date"),
    ),
    table(
        "tickets", "ticket", _CHILD,
        link("flight_id", "flights"), category("class", "economy business first"),
        real("price", 20, 99), whole("bags", 0, 4, says="number of bags", nulls=True),
        whole("seat", 1, 60, says="seat number"), date("sold", says="sale date"),
    ),
)

_CINEMA = (
    table(
        "directors", "director", _PARENT,
        names(PEOPLE), category("country", _LANDS), year("born", 1930, 1995, says="year of birth"),
        whole("awards", 0, 9, says="number of awards", nulls=True),
    ),
    table(
        "films", "film", _MAIN,
        names(TITLES, "title"), link("director_id", "directors"),
        category("genre", "comedy drama horror crime western fantasy"),
        whole("minutes", 60, 99, says="number of minutes"), real("budget", 1, 90, nulls=True),
        date("released", says="release date"),
    ),
    table(
        "shows", "show", _CHILD,
        link("film_id", "films"), category("hall", "red green blue gold"), real("price", 5, 20),
        whole("viewers", 1, 99, says="number of viewers"), whole("staff", 1, 20, says="number of staff", nulls=True),
        date("shown", says="show date"),
    ),
)

_FOOTBALL = (
    table(
        "teams", "team", _PARENT,
        names(GROUPS), category("city", _TOWNS), year("founded", 1880, 1990, says="founding year"),
        real("budget", 5, 90), whole("titles", 1, 30, says="number of titles", nulls=True),
    ),
    table(
        "players", "player", _MAIN,
        names(PEOPLE), link("team_id", "teams"), category("position", "keeper defender midfielder striker"),
        whole("goals", 0, 60, says="number of goals"), whole("age", 17, 40, nulls=True),
        real("speed", 20, 36), date("signed", says="signing date"),
    ),
    table(
        "injuries", "injury", _CHILD,
        link("player_id", "players"), category("part", "knee foot back hand head"), real("cost", 1, 60, nulls=True),
        whole("days", 1, 90, says="number of days"), date("injured", says="injury date"),
    ),
)

_BANK = (
    table(
        "branches", "branch", _PARENT,
        names(CITIES), category("region", "north south east west"), whole("staff", 3, 60, says="number of staff"),
        real("rent", 5, 80, nulls=True), date("opened", says="opening date"),
    ),
    table(
        "clients", "client", _MAIN,
        names(PEOPLE), link("branch_id", "branches"), category("job", "baker nurse pilot lawyer farmer singer"),
        whole("age", 18, 90), real("income", 10, 99, nulls=True), date("joined", says="join date"),
    ),
    table(
        "accounts", "account", _CHILD,
        link("client_id", "clients"), category("type", "savings current shared child"), real("balance", 1, 99),
        real("rate", 1, 9, nulls=True), whole("cards", 0, 5, says="number of cards"),
        date("created", says="creation date"),
    ),
)

_FARM = (
    table(
        "barns", "barn", _PARENT,
        names(PLACES), category("region", "north south east west"), whole("capacity", 10, 99),
        real("area", 10, 90, nulls=True), date("built", says="building date"),
    ),
    table(
        "animals", "animal", _CHILD,
        names(PETS), link("barn_id", "barns"), category("species", "cow pig goat sheep horse duck"),
        real("weight", 2, 99), whole("age", 1, 20, nulls=True), whole("milk", 0, 40),
        category("colour", "black white brown grey", nulls=True), date("bought", says="purchase date"),
    ),
)

_RESTAURANT = (
    table(
        "cooks", "cook", _PARENT,
        names(PEOPLE), category("country", _LANDS), whole("stars", 0, 5, says="number of stars", nulls=True),
        real("salary", 20, 80), date("hired", says="hiring date"),
    ),
    table(
        "dishes", "dish", _MAIN,
        names(DISHES), link("cook_id", "cooks"), category("course", "starter main dessert snack"),
        real("price", 3, 40),
        whole("calories", 20, 99, says="number of calories", nulls=True), whole("minutes", 5, 90, says="cooking time"),
        date("added", says="menu date"),
    ),
    table(
        "bills", "bill", _CHILD,
        link("dish_id", "dishes"), category("method", "cash card check"),
        whole("guests", 1, 12, says="number of guests"), real("amount", 5, 99),
        real("tip", 1, 15, nulls=True), date("paid", says="payment date"),
    ),
)

_GYM = (
    table(
        "trainers", "trainer", _PARENT,
        names(PEOPLE), category("sport", "boxing yoga rowing running cycling"), real("fee", 10, 60),
        whole("medals", 1, 20, says="number of medals", nulls=True), date("hired", says="hiring date"),
    ),
    table(
        "members", "member", _MAIN,
        names(PEOPLE), category("city", _TOWNS), whole("age", 16, 80), real("weight", 45, 99, nulls=True),
        date("joined", says="join date"),
    ),
    table(
        "sessions", "session", _CHILD,
        link("trainer_id", "trainers"), link("member_id", "members"), category("room", "red green blue gold"),
        whole("minutes", 20, 90, says="number of minutes"), whole("rating", 1, 10, nulls=True),
        date("held", says="session date"),
    ),
)

_CONCERTS = (
    table(
        "bands", "band", _PARENT,
        names(GROUPS), category("style", "rock jazz folk pop metal"),
        whole("albums", 1, 30, says="number of albums", nulls=True),
        whole("size", 2, 12, says="number of players"), year("formed", 1960, 2015, says="founding year"),
    ),
    table(
        "venues", "venue", _PARENT,
        names(PLACES), category("city", _TOWNS), whole("capacity", 10, 99), real("rent", 1, 50, nulls=True),
        date("opened", says="opening date"),
    ),
    table(
        "concerts", "concert", _CHILD,
        link("band_id", "bands"), link("venue_id", "venues"), category("season", "spring summer autumn winter"),
        real("price", 5, 90), whole("sold", 1, 99, says="number of visitors", nulls=True),
        whole("songs", 8, 40, says="number of songs"), date("played", says="concert date"),
    ),
)

_MUSEUM = (
    table(
        "artists", "artist", _PARENT,
        names(PEOPLE), category("country", _LANDS), year("born", 1800, 1980, says="year of birth"),
        whole("prizes", 0, 9, says="number of prizes", nulls=True),
    ),
    table(
        "paintings", "painting", _MAIN,
        names(TITLES, "title"), link("artist_id", "artists"), category("style", "cubist gothic baroque modern"),
        real("value", 5, 99), whole("width", 20, 99), real("frame", 1, 20, says="frame weight", nulls=True),
        date("acquired", says="acquisition date"),
    ),
    table(
        "repairs", "repair", _CHILD,
        link("painting_id", "paintings"), category("damage", "crack stain tear fading"), real("cost", 1, 60),
        whole("weeks", 1, 20, says="number of weeks", nulls=True), date("finished", says="finish date"),
    ),
)

_RAILWAY = (
    table(
        "stations", "station", _PARENT,
        names(CITIES), category("zone", "inner outer coast hills"), whole("platforms", 1, 24),
        real("height", 1, 90, nulls=True), date("opened", says="opening date"),
    ),
    table(
        "trains", "train", _MAIN,
        names(SIGNS), category("type", "express local freight night"), whole("speed", 40, 99),
        real("length", 50, 99), whole("age", 1, 50, nulls=True),
    ),
    table(
        "stops", "stop", _CHILD,
        link("train_id", "trains"), link("station_id", "stations"), category("weather", "sun rain snow fog"),
        whole("delay", 1, 60, nulls=True), whole("riders", 1, 99, says="number of riders"), real("fare", 2, 40),
        date("made", says="stop date"),
    ),
)

# fmt: on
FAMILIES: dict[str, DatabaseFamily] = {
    name: DatabaseFamily(name=name, tables=tables)
    for name, tables in {
        "library": _LIBRARY,
        "shop": _SHOP,
        "school": _SCHOOL,
        "hospital": _HOSPITAL,
        "airline": _AIRLINE,
        "cinema": _CINEMA,
        "football": _FOOTBALL,
        "bank": _BANK,
        "farm": _FARM,
        "restaurant": _RESTAURANT,
        "gym": _GYM,
        "concerts": _CONCERTS,
        "museum": _MUSEUM,
        "railway": _RAILWAY,
    }.items()
}
HELD_OUT = ("museum", "railway")
