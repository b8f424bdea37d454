"""Word lists that the story and instruction generators draw from."""

GIRL_NAMES = """Mia Anna Lily Rosa Nora Ella Ruby Clara Emma Lucy Ivy Hana Zoe Maya Tina Olga Vera Alma Elsa Greta
Lena Mila Nina Sara Wanda Yara Amina Bella Celia Daisy Edith Fiona Gina Hazel Irma Julia Kira Lola Maren Nelly Oda
Pia Rita Sofia Tilda Una Willa Priya Mei Leila""".split()

BOY_NAMES = """Tom Ben Sam Max Leo Finn Jack Noah Oscar Paul Peter Hugo Ivan Karl Luca Marco Nico Omar Pablo Ravi
Simon Theo Viktor Will Adam Bruno Carlo David Emil Felix George Henry Isak Jonas Kofi Liam Milo Nils Otto Pedro
Quinn Rolf Stefan Timo Umar Walter Yusuf Zeno Aron Kenji""".split()

ANIMAL_KINDS = """fox rabbit bear mouse hedgehog squirrel duck frog cat dog goat badger owl otter beaver turtle
donkey lamb pony mole""".split()

TRAITS = """kind brave shy curious clever cheerful quiet gentle careful busy proud patient lively honest thoughtful
hopeful playful stubborn friendly polite""".split()

COLOURS = "red blue green yellow white black brown orange purple pink grey golden silver".split()

OBJECTS = """kite ball boat hat scarf lantern drum bell book cup basket doll key ring map whistle flute umbrella spoon
box coat blanket bag bowl ribbon button candle chair clock comb mirror wagon bucket feather stone shell coin marble
puppet pencil notebook bracelet necklace glove sock pillow teapot jar rope""".split()

HOMES = """a small village by the sea|a quiet valley|a little house near the forest|a town with narrow streets
a farmhouse on a hill|a cottage beside a river|a village under the mountains|an old mill by a stream
a tall house in the city|a warm hut at the edge of the woods|a town by a wide lake|a house with a blue door
a farmhouse near a dusty road|a small town full of gardens|a lighthouse on an island|a village among the fields"""
HOMES = HOMES.replace("\n", "|").split("|")

# Each entry follows a verb of going ("walked to ...") or of looking ("looked near ...").
SPOTS = """the river|the old bridge|the market|the meadow|the pond|the apple tree|the barn|the well|the school
the bakery|the hill|the big oak|the garden gate|the beach|the church|the mill|the playground|the stable
the stone wall|the fountain|the library|the orchard""".replace("\n", "|").split("|")

HIDING_PLACES = """under the bed|behind the door|in the kitchen|beside the stove|under the table|in the old chest
behind the curtains|on the top shelf|in the attic|under the stairs|in the garden shed|behind the sofa
between the cushions|in the hall""".replace("\n", "|").split("|")

ELDERS = [("grandmother", "she"), ("mother", "she"), ("aunt", "she"), ("grandfather", "he"), ("father", "he"),
          ("uncle", "he"), ("big sister", "she"), ("big brother", "he")]

FOODS = """bread|apple cake|vegetable soup|pancakes|honey cakes|cheese|plum pie|warm milk|noodles|rice|berry jam
roasted nuts|potato soup|cookies|pears|cherries""".replace("\n", "|").split("|")

JOBS = """baker farmer teacher doctor tailor painter singer sailor gardener miller postman carpenter cook
driver""".split()

WEATHERS = """sunny|rainy|windy|cloudy|cold|warm|foggy|snowy|bright|grey""".split("|")

COMMON_WORDS = """apple river stone cloud table window garden bread milk horse bird fish tree leaf flower grass sun
moon star rain snow wind fire water house door wall roof floor road bridge hill field forest lake sea sand island
boat train wheel cart bell drum song dance game story book page pencil paper letter word number color circle square
line corner summer winter spring autumn morning evening night day week month year clock hour minute happy sad quick
slow big small tall short long round soft hard warm cold sweet sour salt sugar pepper honey butter cheese egg soup
plate spoon fork knife cup bowl pot pan chair bed lamp blanket pillow shirt shoe hat coat glove ring chain key lock
box bag basket rope nail hammer saw ladder bucket broom brush soap towel mirror picture frame camera radio phone
cat dog cow sheep goat pig hen duck goose mouse rat frog snake bee ant spider lion tiger bear wolf fox deer rabbit
king queen prince farmer baker doctor teacher sailor pilot friend brother sister mother father uncle aunt baby
hand foot head nose ear eye mouth arm leg finger heart bone run walk jump swim fly sing read write draw paint build
make find lose give take open close push pull carry throw catch climb fall sleep wake eat drink cook wash clean
red blue green yellow white black brown orange purple pink grey one two three four five six seven eight nine
ten under over behind between near far left right always never often maybe yes no please thanks hello""".split()

# Things that can appear several times in a list; the plural is regular.
COUNTED_THINGS = """cat dog bird apple ball hat cup star book tree egg key bell shoe fish boat pear lamp duck cow
pig hen rose plum nut""".split()
COUNTED_PLURALS = {"fish": "fish"}

NUMBER_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty""".split()
