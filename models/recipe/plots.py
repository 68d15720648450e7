# SPDX-License-Identifier: Apache-2.0
"""The plots. Each takes the story's state, fills its cast and slots, and returns paragraphs of
templates (grammar.py describes their expansion). In each plot the end follows from the beginning:
a wish or a fault, its consequences, attempts, their cost and the lesson."""

from grammar import COLORS, DAYS, DENS, FOODS, FRAGILE, HOMES, PLACES, TREASURES


def opening(s, who, trait):
    """Returns the sentence that introduces the hero, with the trait the plot depends on."""
    c = s.slots[who]
    home = s.pick(DENS if c.kind not in ("girl", "boy") else HOMES)
    s.set(home=home, trait=trait)
    return s.pick([
        "{Once upon a time|Once|Long ago}, there was a {little|small|young|} [trait] [%s.kind] {named|called} [%s]. {[%s] lived in [home].|[%s.He] lived in [home].|}" % ((who,) * 4),
        "{Once upon a time|Long ago}, {in [home],|} there lived a [trait] {little|young|} [%s.kind] {named|called} [%s]." % (who, who),
        "In [home] lived a [trait] {little|young|} [%s.kind] {named|called} [%s]." % (who, who),
        "[%s] was a [trait] {little|young|} [%s.kind] who lived in [home]." % (who, who),
        "There was once a {little|young|} [%s.kind] {named|called} [%s]. [%s.He] was {very|always} [trait]." % ((who,) * 3),
    ])


def lost(s):
    s.hero("A"), s.friend("B")
    a, b, c = s.pick_several(PLACES, 3)
    s.set(obj=s.pick(TREASURES), color=s.pick(COLORS), p1=a, p2=b, p3=c, day=s.pick(DAYS))
    cause = s.pick([
        "[A] was running so fast that [A.he] did not {see|notice} the [obj] fall.",
        "the wind was strong, and it blew the [obj] away.",
        "[A] put the [obj] down to {pick flowers|watch a butterfly|drink some water} and forgot about it.",
        "[A] {fell asleep|took a nap} in the sun, and when [A.he] woke up, the [obj] was gone."])
    s.set(cause=cause)
    return [
        opening(s, "A", s.pick(["careless", "cheerful", "curious"])) +
        " [A.He] had a [color] [obj] {that [A.he] loved very much|from [A.his] {grandmother|grandfather|mother|father}}. {[A.He] took it everywhere.|It was [A.his] favourite thing in the world.|}",
        "[day], [cause] {When [A.he] came home, [A.he] looked for it|At last [A.he] saw what had happened}. \"{Oh no|Oh dear}!\" {cried|said} [A]. \"{My [obj] is gone|I have lost my [color] [obj]}!\" [A.He] looked [p1.at], but it was not there. [A.He] looked [p2.at], but {it was not there either|there were only {leaves|stones|two sleepy birds}}. [A] {sat down and began to cry|felt very sad}.",
        "Then [A.his] friend [B] [B.label]came {along|by}. \"{Why are you {sad|crying}|What is the matter}, [A]?\" {asked|said} [B]. \"I have lost my [obj],\" said [A]. \"{Do not worry|Do not cry},\" said [B]. \"{I saw something [color] [p3.at]|We will look for it together. I think I saw something [color] [p3.at]}.\"",
        "They {went|ran|walked} to [p3] together, and there {was the [color] [obj]|the [obj] was}! {It was a little {wet|dirty}, but it was not broken.|} [A] {hugged [B]|jumped for joy}. \"Thank you, [B],\" [A.he] said. \"{I will be more careful now|You are a good friend}.\" " +
        "{From that day on, [A] always {looked after|took good care of} [A.his] [obj].|[A] and [B] {walked home|played together} until the sun went down.|After that, [A] never left the [obj] behind again.}"]


TOOLS = [("boat", "a wide river", "The water was deep and cold", "tried to swim, but the water was too fast", "rowed to the other side"),
         ("ladder", "a high wall", "The stones were smooth", "tried to climb, but [A.he] slipped and fell", "climbed over the wall"),
         ("lantern", "a dark cave", "Nothing could be seen inside", "took three steps, but [A.he] bumped [A.his] nose", "walked through the cave"),
         ("rope", "a deep hole in the road", "The sides were steep", "tried to jump, but it was too far", "swung across the hole"),
         ("sled", "a hill of deep snow", "The snow was soft and cold", "tried to walk, but [A.he] sank up to [A.his] ears", "slid over the snow"),
         ("long plank", "a muddy swamp", "The mud was thick and black", "tried to walk, but [A.his] feet got stuck", "walked across the mud")]
GOALS = [("see the sea", "The sea was blue and wide, and the waves sang"),
         ("visit [A.his] grandmother", "Grandmother was waiting at the door with warm bread"),
         ("pick the sweet berries on the other side", "The berries were red and sweet"),
         ("find the flower that shines at night", "The flower shone like a little moon"),
         ("hear the music at the summer fair", "The music was so gay that everyone danced"),
         ("bring medicine to [A.his] sick {uncle|aunt}", "The medicine worked, and soon the sickness was gone")]


def obstacle(s):
    s.hero("A"), s.elder("E")
    tool, wall, why, fail, win = s.pick(TOOLS)
    goal, arrive = s.pick(GOALS)
    s.set(tool=tool, wall=wall, why=why, fail=fail, win=win, goal=goal, arrive=arrive, day=s.pick(DAYS), food=s.pick(FOODS))
    return [
        opening(s, "A", s.pick(["brave", "stubborn", "curious", "clever"])) +
        " {More than anything, [A] wanted to [goal].|[A] had one wish: [A.he] wanted to [goal].}",
        "[day], [A] {set out|left home} {with {a piece of bread|some [food]} in [A.his] bag|all alone|with a song}. But soon [A.he] came to [wall]. [why]. [A] [fail]. \"{This is too hard|I cannot do it},\" {said [A]|[A.he] said} {sadly|with a sigh}.",
        "{Just then, [E] came by.|Not far away lived [E].} \"{What is wrong|Where are you going}?\" asked [E]. \"I want to [goal], but there is [wall] {in my way|here},\" said [A]. [E.Name] {smiled|nodded}. \"{Do not use your feet. Use your head|Stop and think|A problem has a key, like a door}. {You can borrow my [tool]|I have an old [tool]. You may take it}.\"",
        "[A] {thanked [E.him] and|} took the [tool] and [win]. {It was not easy, but [A.he] did not give up.|It took a long time.|}  {At last|Before evening}, [A.he] was there. [arrive]. {[A] was so happy that [A.he] laughed out loud.|[A] had never been so happy.|}",
        "{On the way home|The next day}, [A.he] gave the [tool] back {and shared [A.his] [food] with [E]|with many thanks}. \"{The right tool makes hard work easy|Now I know that thinking is better than pushing},\" said [A]."]


TRAPS = [("stuck in a net", "cut the net with {a sharp stone|a small knife}"), ("at the bottom of a dry well", "let down a long rope and pulled"),
         ("under a fallen branch", "lifted the branch with a strong stick"), ("stuck in the mud", "laid a plank on the mud and pulled"),
         ("in a thorn bush", "bent the thorns away one by one"), ("caught between two rocks", "pushed the smaller rock until it rolled away")]
FAVOURS = [("got lost in the {fog|snow|forest}", "showed [A.him] the way home"),
           ("fell into the river", "pulled [A.him] out of the water"),
           ("could not find anything to eat", "brought [A.him] {nuts|berries|apples}"),
           ("lost [A.his] key in the tall grass", "found the key in a moment"),
           ("was chased by a hungry wolf", "made so much noise that the wolf ran away")]


def rescue(s):
    s.hero("A"), s.beast("B")
    trap, out = s.pick(TRAPS)
    need, favour = s.pick(FAVOURS)
    s.set(trap=trap, out=out, need=need, favour=favour, p=s.pick(PLACES), day=s.pick(DAYS))
    return [
        opening(s, "A", s.pick(["kind", "gentle", "brave"])),
        "[day], [A] was walking {to|near} [p] when [A.he] heard a {small|thin|sad} voice. \"Help! {Help!|Please help me!}\" it cried. [A] {looked around|stopped and listened}. There was a [B.kind], [trap]! {\"I have been here all night,\" said the [B.kind].|\"I am [B],\" said the [B.kind], \"and I cannot get out.\"}",
        "\"{Do not be afraid|Hold still},\" said [A]. \"I will help you.\" {[A.He] thought for a moment. Then|Quickly} [A.he] [out]. {It was hard work, but|After a while,} the [B.kind] was free. \"Thank you!\" said the [B.kind]. \"{One day I will help you too|I will never forget this}.\" {[A] smiled. \"You are so small,\" [A.he] said. \"How could you help me?\"|[A] waved and went on.}",
        "{Many days later|Some weeks later|When winter came}, [A] [need]. [A.He] {called and called, but nobody came|was {tired|cold} and afraid}. Then there was a {sound|noise} in the {grass|bushes}. It was the [B.kind]! The [B.kind] [favour].",
        "\"{You remembered me|You came back}!\" said [A]. \"{Of course|Yes},\" said the [B.kind]. \"{You were kind to me first|A friend does not forget}.\" {And so a small kindness came back as a big one.|From then on, they were friends.|So [A] learned that no one is too small to help.}"]


FEARS = [("the dark", "the dark", "At night [A.he] hid under [A.his] blanket", "The dark is only the day with its eyes closed", "put one foot into the dark room", "saw the stars through the window"),
         ("thunder", "thunder", "When the sky rumbled, [A.he] hid under the table", "Thunder is only the clouds clapping their hands", "sat by the window and counted", "heard that the rumble had a rhythm, like a drum"),
         ("deep water", "the water", "[A.He] never went near the pond", "Water will carry you if you are calm", "put one toe into the pond", "was floating on [A.his] back, light as a leaf"),
         ("high places", "high places", "[A.He] never climbed trees", "Do not look down, look at the next branch", "climbed onto the lowest branch", "was sitting high in the tree and could see the whole valley"),
         ("strangers", "strangers", "When somebody knocked, [A.he] ran away", "A stranger is a friend you have not met", "said hello in a very small voice", "was laughing with a new friend")]


def fear(s):
    s.hero("A"), s.elder("E") if s.rng.random() < 0.5 else s.friend("E")
    x, y, hide, wisdom, step, end = s.pick(FEARS)
    s.set(x=x, y=y, hide=hide, wisdom=wisdom, step=step, end=end, day=s.pick(DAYS), food=s.pick(FOODS))
    return [
        opening(s, "A", s.pick(["shy", "quiet", "gentle", "clever"])) + " {But|There was only one problem:} [A] was afraid of [x]. [hide].",
        "{The others laughed at [A.him]|The other children called [A.him] names|Nobody knew why}. {That made [A] sad.|} \"{I wish I were brave,|Why am I so afraid?}\" {[A.he] thought|said [A]}. [day], [A] told [E] {about it|everything}.",
        "[E.Name] did not laugh. \"{Everyone is afraid of something|I was once afraid too},\" said [E]. \"But listen: [wisdom]. {Come, I will stay beside you|Try one small step, and I will hold your hand}.\"",
        "[A]'s heart was beating fast, but [A.he] [step]. Nothing bad happened. {So [A.he] tried again.|Then [A.he] tried again, and it was easier.} {Soon|After a while} [A.he] [end]. \"{Look|I did it}!\" [A.he] {cried|called}. \"I am not afraid {now|any more}!\"",
        "\"{Being brave is not the same as never being afraid|To be brave means to be afraid and to try},\" said [E]. {That night they ate [food] together, and [A] slept well.|[A] never forgot those words.|From that day on, [A] was not afraid of [y].}"]


def truth(s):
    s.hero("A"), s.elder("E")
    thing, mend = s.pick(FRAGILE)
    s.set(thing=thing, mend=mend, color=s.pick(COLORS), day=s.pick(DAYS), food=s.pick(FOODS))
    return [
        opening(s, "A", s.pick(["careless", "lively", "cheerful"])) + " {Every day|Often} [A] visited [E], who had a beautiful [color] [thing].",
        "[day], [A] was {dancing|jumping|playing with a ball} {in the room|in the house}, {though [E] had said not to|and did not look where [A.he] was going}. Crash! The [thing] {fell to the floor and broke|was broken}. [A] {looked around|held [A.his] breath}. Nobody had seen it. {Quickly [A.he] hid the pieces under the bed.|[A.He] hid the pieces in a box and ran away.}",
        "When [E] came {home|back}, [E.he] asked, \"{Where is my [thing]|Have you seen my [thing]}?\" \"{I do not know|Maybe the {cat|wind} broke it},\" said [A] {quietly|and looked at the floor}. But that night [A] could not sleep. {The lie felt like a stone in [A.his] stomach.|[A.His] [food] had no taste, and [A.his] heart was heavy.}",
        "In the morning, [A] {took the pieces and went to [E]|brought the pieces to [E]}. \"{I have to tell you something|I told a lie},\" [A.he] said. \"I broke your [thing]. I am {so|very} sorry.\" [E.Name] was quiet for a {moment|while}. Then [E.he] {smiled|took [A.his] hand}. \"{I am sad about the [thing]|A [thing] can be mended},\" said [E], \"but I am glad that you told {me|} the truth.\"",
        "Together they mended it with [mend]. {It was not quite the same as before, but it was strong again.|A thin line could still be seen, and [A] liked it best of all.} {And [A]'s heart was light again.|[A] had learned that the truth is easier to carry than a lie.|After that, [A] always told the truth.}"]


CONTESTS = [("race to the {mill|old bridge|top of the hill}", "ran", "run"), ("swimming race across the lake", "swam", "swim"),
            ("sled race down the hill", "flew down the hill", "go")]


def race(s):
    s.world = "beasts" if s.rng.random() < 0.6 else s.world
    s.hero("A"), s.hero("B")
    what, ran, run = s.pick(CONTESTS)
    s.set(what=what, ran=ran, run=run, day=s.pick(DAYS), prize=s.pick(["a honey cake", "a golden ribbon", "a silver bell", "a basket of apples"]))
    return [
        opening(s, "A", "proud") + " [A] was {fast|quick as the wind}, and [A.he] told everyone about it. [A.His] neighbour [B] [B.label]was {slow|not fast}, but [B.he] never gave up.",
        "[day], there was a [what]. The prize was [prize]. \"{I will win, of course|Nobody can beat me},\" said [A]. {[A.He] looked at [B] and laughed.|} \"{Why do you even try|You are much too slow}, [B]?\" \"{I will do my best|We will see},\" said [B] {quietly|calmly}.",
        "{The race began.|One, two, three, go!} [A] [ran] so fast that soon [B] was far behind. \"I have {plenty of|so much} time,\" thought [A]. {So [A.he] {lay down|sat down} in the shade {and closed [A.his] eyes|to rest}.|So [A.he] stopped to {eat berries|talk with some friends|look at [A.his] own face in the water}.} [B] did not stop. {[B.He] was tired, but [B.he] went on, step by step.|Slowly, slowly, [B.he] came closer.}",
        "When [A] looked up {again|}, [B] was almost at the end! [A] {jumped up and hurried|went as fast as [A.he] could}, but it was too late. [B] had won [prize]. Everybody {cheered|clapped}.",
        "[A] was {ashamed|red in the face}. \"{I was foolish|You were better than me},\" [A.he] said. \"{Well done, [B]|I am sorry that I laughed at you}.\" {[B] shared the prize with [A.him], and they became friends.|\"It is not enough to be fast,\" said [B]. \"You must also go on.\"|\"Thank you,\" said [B]. \"Next time, let us {run|start} together.\"}"]


def sharing(s):
    s.hero("A"), s.friend("B")
    food, food2 = s.pick_several(FOODS, 2)
    s.set(food=food, food2=food2, p=s.pick(PLACES), day=s.pick(DAYS))
    return [
        opening(s, "A", s.pick(["greedy", "selfish", "hungry"])) + " {What [A.he] liked best was [food].|[A] loved [food] more than anything.}",
        "[day], [A] {had a whole basket of [food]|got a big basket of [food] from [A.his] mother}. [A.He] sat down [p.at] to eat {it all alone|everything}. Then [B] [B.label]came by. \"{I have not eaten since yesterday|I am so hungry},\" said [B]. \"{May I have a little|Will you share with me}?\" \"No,\" said [A]. \"{It is all mine|There is not enough for two}.\" [B] {went away sadly|said nothing and walked away}.",
        "[A] ate and ate {until the basket was empty|until nothing was left}. {But soon [A.his] stomach began to hurt.|But it did not taste as good as before.} {\"Why do I feel so bad?\" [A.he] {thought|wondered}.|[A.He] thought of [B]'s sad face.}",
        "{The next day|A week later}, {a great storm came|the snow was deep}, and [A] {had nothing to eat|could not find any food}. {[A.He] was cold and hungry.|} There was a knock at the door. It was [B], with a {pot|bowl|bag} of [food2]. \"{I thought you might be hungry|It is not much, but we can share it},\" said [B]. [A] {was ashamed|felt [A.his] face grow hot}. \"{But I gave you nothing|I was not kind to you},\" [A.he] said. \"{I know|That was yesterday},\" said [B]. \"{Eat|Sit down and eat}.\"",
        "They ate together {by the fire|at the small table}, and {it tasted better than anything|it was the best supper [A] had ever eaten}. {From then on, [A] always shared what [A.he] had.|\"Food tastes better with a friend,\" said [A], and after that [A.he] never ate alone.|So [A] learned to share.}"]


def noise(s):
    s.hero("A"), s.friend("B")
    sound, answer = s.pick([("a scratching at the door", "a hungry kitten"), ("a long howl", "the wind in an empty bottle"),
                            ("a knocking on the roof", "a {squirrel|raven} dropping nuts"), ("a deep humming", "an old man singing to his bees"),
                            ("a soft crying", "a lost lamb"), ("a loud banging", "a loose window in the old mill"),
                            ("a strange splashing", "a family of ducks in the well")])
    s.set(sound=sound, answer=answer, n=s.pick(["three", "two", "five", "seven"]))
    return [
        "{For [n] nights|Every night}, there was [sound] near {the village|the houses|the big oak tree}. {Nobody could sleep.|Nobody knew what it was.} \"It is a {monster|ghost|giant},\" said {some|the neighbours}. \"{It will eat us|Lock your doors},\" said {others|the rest}. {Everyone stayed inside after dark.|Everybody was afraid.}",
        "Only [A], a {brave|curious|clever} {little|young} [A.kind], {wanted to know the truth|was not so sure}. \"Has anyone seen it?\" asked [A]. {Nobody had.|No, nobody had seen it.} \"Then I will go and look,\" said [A]. {\"You are mad,\" said|\"Please be careful,\" said} [A.his] friend [B], \"but {I will come with you|you shall not go alone}.\"",
        "That night, they took a lantern and {went|walked|crept} {out into the dark|through the cold fog|down the empty road}. There it was again: [sound]! [B] {shook like a leaf|wanted to run away|held [A.his] hand}. [A] was afraid too, but [A.he] lifted the lantern {high|} and took another step. And what did they see? It was only [answer]!",
        "{[A] and [B] laughed until they had to sit down.|\"So this is our monster!\" said [A], and they both laughed.} {They took care of it, and then they went home.|Then they went home and told everybody.} {The neighbours were ashamed, and then they laughed too.|Soon the whole village was laughing.} \"{Fear makes small things big|Next time, we will look first},\" said {[A]|the oldest neighbour}. {That night, everyone slept well.|}"]


SKILLS = [("whistle", "blew and blew, but only air came out", "whistled a whole song"), ("swim", "sank like a stone", "swam across the pond like a fish"),
          ("bake bread", "burned the bread until it was black", "baked a loaf that was soft and warm"), ("play the drum", "hit the drum too hard and it sounded like a falling pot", "played so well that people danced"),
          ("read", "mixed up all the letters", "read a whole story aloud"), ("skate", "fell on the ice with a bump", "danced over the ice"),
          ("paint", "painted a horse that looked like a potato", "painted a horse that seemed to run"), ("sew", "pricked [A.his] finger with the needle", "made a coat with six buttons")]


def practice(s):
    s.hero("A"), s.elder("E"), s.friend("B")
    skill, fail, win = s.pick(SKILLS)
    s.set(skill=skill, fail=fail, win=win, day=s.pick(DAYS), season=s.pick(["winter", "summer", "spring", "autumn"]))
    return [
        opening(s, "A", s.pick(["impatient", "stubborn", "lively"])) + " {[A] wanted to learn to [skill].|All [A.his] friends could [skill], but [A] could not.}",
        "[day], [A] tried {for the first time|all by [A.self]}. [A.He] [fail]. {Everyone laughed.|\"Ha ha!\" laughed the others.|} [A] {threw [A.his] hat on the ground|was angry}. \"I will never learn {it|this}!\" [A.he] {said|cried}.",
        "[E.Name] {heard this and|} came to [A]. \"{How many times did you try|Did you try again}?\" asked [E]. \"{Once|Only once},\" said [A]. [E.Name] laughed kindly. \"{A tree does not grow in a day|Nobody can do it the first time}. {Try a little every day|Come to me every morning, and I will show you}.\"",
        "So [A] {practised every day|tried again and again}. {The first week was hard.|Some days it went badly, and [A] wanted to stop.} {The second week was better.|But each day it was a little better.} And {at the end of the [season]|when [season] came}, [A] [win]! {Nobody laughed now.|[E.Name] clapped {the loudest|for a long time}.}",
        "Then {little |}[B] came to [A]. \"{I wish I could do that|I would like to [skill] too},\" said [B]. [A] smiled. \"{I will teach you|Come, I will show you},\" [A.he] said. \"{But you must try more than once|You only need to begin, and then not stop}.\""]


def garden(s):
    s.hero("A"), s.hero("B")
    plant, fruit = s.pick([("a pumpkin seed", "a pumpkin as big as a cart"), ("an apple seed", "a little tree with {five|seven} red apples"),
                           ("a sunflower seed", "a sunflower taller than the house"), ("some beans", "long green beans by the basket"),
                           ("a row of carrots", "carrots as long as an arm"), ("a rose", "a rose as red as the evening sky")])
    s.set(plant=plant, fruit=fruit, lazy=s.pick(["sleep in the sun", "play all day", "lie in the grass"]), food=s.pick(FOODS))
    return [
        opening(s, "A", s.pick(["patient", "careful", "quiet"])) + " Next door lived [B], {a lazy [B.kind]|who was rather lazy}. {In spring|When the snow was gone}, they both planted [plant].",
        "{Every morning|Each day}, [A] {carried water from the well|watered the ground and pulled the weeds}. {[A.He] chased the snails away and {sang to the earth|talked to the little plant}.|When it was cold at night, [A.he] covered the ground with straw.} \"{Why do you work so hard?|Come and rest!}\" said [B]. \"{I would rather [lazy]|It will grow by itself}.\" \"{A garden needs care|If you want to eat, you must work first},\" said [A].",
        "{Summer came|The weeks went by}. In [A]'s garden stood [fruit]. {Everyone came to look at it.|It was wonderful.} But in [B]'s garden there were only {weeds and stones|dry leaves and snails}. [B] {looked over the fence and sighed|was sad and a little ashamed}. \"{I should have listened to you|Now I will have nothing for the winter},\" said [B].",
        "[A] {thought for a while|put a hand on [B]'s shoulder}. \"{I have enough for two|You may have half of mine},\" [A.he] said, \"but next year you {must|will} help me.\" [B] {was so happy that [B.he] made [food] for both of them|promised it}. {And [B] kept the promise.|} {The next spring, [B] was the first one in the garden.|The next year, there were two fine gardens, side by side.}"]


def gift(s):
    s.hero("A"), s.friend("B")
    a, b, c = s.pick_several(PLACES, 3)
    item, m1, m2 = s.pick([("a cake", "honey", "nuts"), ("a kite", "thin paper", "a long string"), ("a crown of flowers", "white daisies", "blue ribbons"),
                           ("a warm pillow", "soft feathers", "green cloth"), ("a little flute", "a piece of reed", "some wax"), ("a necklace", "round shells", "silver thread")])
    s.set(item=item, m1=m1, m2=m2, p1=a, p2=b, p3=c, day=s.pick(["Tomorrow", "The next day", "In two days"]))
    return [
        opening(s, "A", s.pick(["poor", "kind", "clever"])) + " [day] was the birthday of [A.his] best friend, [B] [B.label]. \"{What can I give?|I have no money for a gift,}\" thought [A]. Then [A.he] had an idea. \"I will make [item] {myself|with my own hands}!\"",
        "First [A.he] {went to [p1]|looked [p1.at]} and found [m1]. Then [A.he] {needed [m2], so [A.he] walked to [p2]|walked to [p2] for [m2]}. {It began to rain, and [A] got wet, but [A.he] did not turn back.|It was far, and [A.his] feet hurt, but [A] went on.} \"{What are you doing with all that|Why are you so busy}?\" asked {a bird|the baker|a neighbour}. \"It is a secret,\" said [A].",
        "{All night|All evening} [A] worked {by the light of a candle|at the kitchen table}. {Twice it went wrong, and twice [A.he] began again.|It was difficult, but [A.he] took [A.his] time.} When the sun came up, [item] was ready. {It was not perfect, but it was beautiful.|}",
        "[A] took it to [B]. {The others had brought big boxes with golden paper.|} [B] opened the gift {slowly|with shining eyes}. \"{Did you make this for me|You made it yourself}?\" asked [B]. \"{Yes|I did},\" {said [A] shyly|said [A] and blushed}. \"{It is the best gift of all|Then I will keep it for ever},\" said [B]. {They danced and sang until it was dark.|And [A] knew that a gift does not have to cost money.|They sat [p3.at] and watched the stars come out.}"]


def storm(s):
    s.hero("A"), s.friend("B"), s.friend("C")
    s.set(p=s.pick(PLACES), food=s.pick(FOODS), day=s.pick(DAYS), shelter=s.pick(["an old barn", "a hollow tree", "a dry cave", "an empty mill"]),
          game=s.pick(["told stories", "sang songs", "played guessing games"]))
    return [
        "[day], [A] [A.label], [B] and [C] {went out to play|were playing} [p.at]. The sun was shining, {and the sky was blue|and nobody thought of rain}. {They ran and jumped and climbed.|They built a tower of stones.} But then {dark|black} clouds came over the hill, and the wind began to {blow|howl}.",
        "\"{We should go home|It is going to rain},\" said [A]. \"{Only five more minutes|It is only a little cloud},\" said [B]. So they stayed. {Soon|A moment later} the rain came down {like a river|in big heavy drops}, and there was thunder and lightning. \"{We cannot go home now|The path is under water},\" {cried|said} [C]. \"{I am scared!|What shall we do?}\"",
        "[A] looked around and saw [shelter]. \"{Quick, in here|Follow me}!\" [A.he] called. They ran {inside|as fast as they could}. It was dark {and cold |}in there, but it was dry. [B] had {a little|some} [food], and they shared it. {[C] had a blanket, and they all sat under it.|They sat close together to keep warm.} They [game] {so that nobody would be afraid|until the thunder was far away}.",
        "At last the rain stopped. {They looked out, and there|Over the hill} was a {big|great} rainbow. \"{Look how beautiful it is|It was worth the wait},\" said [C]. \"{Next time I will listen to you, [A]|I am sorry. I should have listened},\" said [B]. {They went home through the wet grass, hand in hand.|[A] smiled, and together they jumped through all the puddles on the way home.|Their mothers were very happy to see them.}"]


def newcomer(s):
    s.hero("A"), s.hero("B")
    thing = s.pick(["flying kites", "reading books", "catching fireflies", "building boats", "playing chess", "picking mushrooms", "drawing birds", "singing"])
    s.set(thing=thing, p=s.pick(PLACES), day=s.pick(DAYS), food=s.pick(FOODS))
    return [
        opening(s, "A", s.pick(["lonely", "shy", "quiet"])) + " [A] liked [thing], but [A.he] had nobody to do it with. {\"I wish I had a friend,\" [A.he] often said.|The days were long.}",
        "[day], a new family came to live {next door|near [p]}. They had a {little|young} [B.kind] {named|called} [B]. [A] {looked through the window|watched from behind a tree}. {[A.He] wanted to say hello, but the words would not come out.|\"What if [B.he] does not like me?\" thought [A].} So [A.he] {went back inside|said nothing} and felt {even more lonely|sad}.",
        "The next day, [A] {saw [B] sitting alone [p.at]|heard somebody crying. It was [B]}. \"{Are you all right|What is wrong}?\" asked [A] {softly|before [A.he] could think}. \"{I do not know anyone here|I miss my old friends},\" said [B]. \"{And nobody here likes [thing]|At home we were always [thing]}.\" [A]'s eyes grew big. \"{But I do|I like [thing] too}!\" [A.he] {said|cried}.",
        "{Soon they were [thing] together, and they forgot the time.|They spent the whole day [thing].} {In the evening, [A]'s mother brought them [food].|They laughed so much that the birds flew away.} \"{I was afraid to talk to you|Yesterday I was too shy to say hello},\" said [A]. \"{So was I|I was afraid too},\" said [B]. {And from that day on, neither of them was lonely again.|Sometimes one small word is enough to find a friend.|After that, they met every day.}"]


def invention(s):
    s.hero("A"), s.elder("E")
    trouble, idea, result = s.pick([
        ("The well was dry, and everyone had to walk far for water", "a long pipe of hollow wood from the spring to the village", "cool water ran down to every house"),
        ("The mill stood still because there was no wind", "a wheel that could be turned by the river", "the mill turned day and night"),
        ("The bridge was gone after the flood", "a raft that could be pulled across on a rope", "everybody could cross the river again"),
        ("The birds ate all the cherries", "a row of little bells that rang in the wind", "the birds stayed away and the cherries grew ripe"),
        ("The apples hung too high for anyone to reach", "a small basket on a very long stick", "nobody had to climb the tall trees"),
        ("Ships could not find the harbour in the fog", "a big drum that could be heard far out at sea", "the ships came home safely")])
    s.set(trouble=trouble, idea=idea, result=result, n=s.pick(["two", "three", "four", "six"]))
    return [
        opening(s, "A", s.pick(["clever", "curious", "patient"])) + " {[A] was always building things out of wood and string.|[A] liked to think about how things work.}",
        "One {year|summer|autumn}, there was trouble. [trouble]. {\"What shall we do?\" asked the people.|Everyone complained, but nobody did anything.} \"{I have an idea|Maybe I can help},\" said [A]. \"You? {You are too small|You are only a [A.kind]},\" they said, {and they laughed|and shook their heads}.",
        "Only [E] did not laugh. \"{Tell me your idea|What do you need},\" said [E]. [A] {drew it in the sand with a stick|explained everything}: [idea]. \"{That could work|That is clever},\" said [E]. {\"I will give you wood and nails.\"|\"Let us build it together.\"} For [n] days they {cut and hammered|worked from morning to evening}. The first one {broke|fell apart}. {\"Now we know what was wrong,\" said [A]|\"Never mind,\" said [E]}, and they made it stronger.",
        "Then the great day came. {Everyone stood around and watched.|The whole village came to see it.} And it worked: [result]! {The people cheered and carried [A] on their shoulders.|\"Hurray for [A]!\" they all shouted.} \"{We are sorry that we laughed|You may be small, but your idea was big},\" they said. {[A] only smiled and began to think about the next thing.|[A] thanked [E], who had believed in [A.him] from the start.}"]


def trade(s):
    s.hero("A")
    items = s.pick_several(["an egg", "a candle", "a pot", "a shovel", "a blanket", "a barrel", "a hen", "a lantern", "a hammer"], 3)
    e1, e2, e3 = s.pick_several(["the baker", "the miller", "the fisherman", "the weaver", "the blacksmith", "the shepherd", "the gardener", "a sailor"], 3)
    s.set(i1=items[0], i2=items[1], i3=items[2], e1=e1, e2=e2, e3=e3, want=s.pick(["a fiddle", "a little boat", "a grey pony", "a pair of red boots", "a puppy"]), day=s.pick(DAYS))
    return [
        opening(s, "A", s.pick(["clever", "poor", "cheerful"])) + " [A] wanted [want], but [A.he] had no money. All [A.he] had was [i1].",
        "[day], [A] met [e1], who {looked worried|was sad}. \"{I need|If only I had} [i1],\" said [e1]. \"{Take mine|You can have mine},\" said [A]. \"{Thank you|How kind}! {Take [i2] for it|I will give you [i2]},\" said [e1]. {So [A] walked on with [i2].|[A] said thank you and went on.}",
        "{Soon|Down the road} [A] met [e2]. \"{Oh, is that [i2]|You have [i2]},\" said [e2]. \"{Mine is lost|Mine broke this morning}. Would you trade it for [i3]?\" \"{Gladly|Yes, of course},\" said [A]. {Now [A.he] had [i3].|And so [A.he] got [i3].}",
        "At last [A] came to [e3]. Beside [e3] was [want]! \"{I would give anything for|For years I have been looking for} [i3],\" said [e3]. [A]'s heart {jumped|beat faster}. \"{Would you give me [want] for it|Then let us trade. I would like [want]},\" said [A]. {[e3] laughed and shook [A.his] hand.|\"It is yours,\" said [e3].}".replace("{[e3] laughed", "{They both laughed, and [e3]"),
        "{[A] went home singing.|[A] danced all the way home.} {In the morning [A.he] had only [i1], and in the evening [A.he] had [want].|\"I helped three people,\" [A.he] said, \"and they helped me.\"} {When you help others, good things may come back to you.|}"]


def promise(s):
    s.hero("A"), s.friend("B")
    s.set(task=s.pick(["feed my fish", "water my flowers", "look after my hens", "close the gate so the sheep stay inside"]),
          fun=s.pick(["a fair with music", "a puppet show", "a boat trip", "a big snowball fight"]), p=s.pick(PLACES), day=s.pick(DAYS))
    return [
        opening(s, "A", s.pick(["cheerful", "lively", "careless"])) + " [day], [A.his] friend [B] {had to go away|went on a trip} for {two|three} days. \"Will you [task]?\" asked [B]. \"{I promise|You can count on me},\" said [A].",
        "On the first day, [A] {kept the promise|did everything right}. But on the second day, there was [fun] {near [p]|in the village}. \"{I can do my work later|It will only take a minute},\" thought [A], and [A.he] {went there and forgot everything|stayed until dark}. {In the night, [A] suddenly sat up in bed.|When [A.he] was almost asleep, [A.he] remembered.} \"My promise!\" [A.he] {cried|said}.",
        "[A] {jumped up and ran|put on [A.his] shoes and ran} through the {dark|cold} night. {It was raining, but [A.he] did not care.|The moon was the only light.} \"{I hope it is not too late|Please let everything be all right},\" [A.he] thought. {[A.He] was lucky.|It was just in time.} Nothing bad had happened, and [A] {did the work at once|worked until morning}.",
        "When [B] came back, [A] told [B.him] {the whole story|everything}. \"I am sorry,\" said [A]. \"{I almost broke my promise|I forgot, but then I ran}.\" [B] {was quiet for a moment|looked at [A]'s {wet|muddy} shoes}. Then [B.he] {smiled|laughed}. \"{You came back in the middle of the night|You told me the truth},\" said [B]. \"{That is what a friend does|I would ask you again}.\" {After that, [A] always did the work first and played later.|And [A] never forgot a promise again.}"]


ALL = [lost, obstacle, rescue, fear, truth, race, sharing, noise, practice, garden, gift, storm, newcomer, invention, trade, promise]
