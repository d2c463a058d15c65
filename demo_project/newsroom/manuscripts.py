"""Texts to try the newsroom with: nineteenth-century English, all in the public domain.

Typed as on a typewriter, so that the house style has something to do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Manuscript:
    """A headline, who wrote it, and one paragraph."""

    headline: str
    byline: str
    text: str

    def __post_init__(self) -> None:
        # The line breaks below are this file's, not the author's.
        object.__setattr__(self, "text", " ".join(self.text.split()))


NETHERFIELD = Manuscript(
    headline="Netherfield Park is let at last",
    byline="Jane Austen",
    text="""
        It is a truth universally acknowledged, that a single man in possession of a good fortune,
        must be in want of a wife. However little known the feelings or views of such a man may be
        on his first entering a neighbourhood, this truth is so well fixed in the minds of the
        surrounding families, that he is considered as the rightful property of some one or other of
        their daughters. "My dear Mr. Bennet," said his lady to him one day, "have you heard that
        Netherfield Park is let at last?"
    """,
)

GETTYSBURG = Manuscript(
    headline="The President speaks at Gettysburg",
    byline="Abraham Lincoln",
    text="""
        Four score and seven years ago our fathers brought forth on this continent, a new nation,
        conceived in Liberty, and dedicated to the proposition that all men are created equal. Now
        we are engaged in a great civil war, testing whether that nation, or any nation so conceived
        and so dedicated, can long endure. We are met on a great battle-field of that war.
    """,
)

BALLOON = Manuscript(
    headline="The Atlantic crossed in three days",
    byline="Edgar Allan Poe",
    text="""
        The great problem is at length solved! The air, as well as the earth and the ocean, has been
        subdued by science, and will become a common and convenient highway for mankind. The
        Atlantic has been actually crossed in a Balloon! and this too without difficulty -- without
        any great apparent danger -- with thorough control of the machine -- and in the
        inconceivably brief period of seventy-five hours from shore to shore!
    """,
)

WALDEN = Manuscript(
    headline="Two years on the shore of a pond",
    byline="Henry David Thoreau",
    text="""
        When I wrote the following pages, or rather the bulk of them, I lived alone, in the woods, a
        mile from any neighbor, in a house which I had built myself, on the shore of Walden Pond, in
        Concord, Massachusetts, and earned my living by the labor of my hands only. I lived there
        two years and two months. At present I am a sojourner in civilized life again.
    """,
)

TELL_TALE = Manuscript(
    headline="How calmly he can tell the whole story",
    byline="Edgar Allan Poe",
    text="""
        True! -- nervous -- very, very dreadfully nervous I had been and am; but why will you say
        that I am mad? The disease had sharpened my senses -- not destroyed -- not dulled them.
        Above all was the sense of hearing acute. I heard all things in the heaven and in the earth.
        I heard many things in hell. How, then, am I mad? Hearken! and observe how healthily -- how
        calmly I can tell you the whole story.
    """,
)

WHALE = Manuscript(
    headline="A sailor sees the watery part of the world",
    byline="Herman Melville",
    text="""
        Call me Ishmael. Some years ago -- never mind how long precisely -- having little or no
        money in my purse, and nothing particular to interest me on shore, I thought I would sail
        about a little and see the watery part of the world. It is a way I have of driving off the
        spleen, and regulating the circulation.
    """,
)

FROG = Manuscript(
    headline="An inquiry after Leonidas W. Smiley",
    byline="Mark Twain",
    text="""
        In compliance with the request of a friend of mine, who wrote me from the East, I called on
        good-natured, garrulous old Simon Wheeler, and inquired after my friend's friend, Leonidas
        W. Smiley, as requested to do, and I hereunto append the result. I have a lurking suspicion
        that Leonidas W. Smiley is a myth; that my friend never knew such a personage.
    """,
)

FOG = Manuscript(
    headline="Implacable November weather in London",
    byline="Charles Dickens",
    text="""
        London. Michaelmas Term lately over, and the Lord Chancellor sitting in Lincoln's Inn Hall.
        Implacable November weather. As much mud in the streets, as if the waters had but newly
        retired from the face of the earth, and it would not be wonderful to meet a Megalosaurus,
        forty feet long or so, waddling like an elephantine lizard up Holborn Hill.
    """,
)

JABBERWOCK = Manuscript(
    headline="The Jabberwock is slain",
    byline="Lewis Carroll",
    text="""
        'Twas brillig, and the slithy toves did gyre and gimble in the wabe; all mimsy were the
        borogoves, and the mome raths outgrabe. "Beware the Jabberwock, my son! The jaws that bite,
        the claws that catch! Beware the Jubjub bird, and shun the frumious Bandersnatch!"
    """,
)

TWO_CITIES = Manuscript(
    headline="It was the best of times",
    byline="Charles Dickens",
    text="""
        It was the best of times, it was the worst of times, it was the age of wisdom, it was the
        age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the
        season of Light, it was the season of Darkness, it was the spring of hope, it was the winter
        of despair. There were a king with a large jaw and a queen with a plain face, on the throne
        of England. It was the year of Our Lord one thousand seven hundred and seventy-five.
    """,
)

VIRGINIA = Manuscript(
    headline="Is there a Santa Claus?",
    byline="Francis Pharcellus Church",
    text="""
        "Dear Editor: I am 8 years old. Some of my little friends say there is no Santa Claus. Papa
        says, 'If you see it in THE SUN it's so.' Please tell me the truth; is there a Santa Claus?
        Virginia O'Hanlon, 115 West Ninety-fifth Street." Virginia, your little friends are wrong.
        They have been affected by the skepticism of a skeptical age. They do not believe except
        they see.
    """,
)

BOHEMIA = Manuscript(
    headline="A scandal in Bohemia",
    byline="Arthur Conan Doyle",
    text="""
        To Sherlock Holmes she is always the woman. I have seldom heard him mention her under any
        other name. In his eyes she eclipses and predominates the whole of her sex. It was not that
        he felt any emotion akin to love for Irene Adler.
    """,
)

OPEN_BOAT = Manuscript(
    headline="Four men in an open boat",
    byline="Stephen Crane",
    text="""
        None of them knew the color of the sky. Their eyes glanced level, and were fastened upon the
        waves that swept toward them. These waves were of the hue of slate, save for the tops, which
        were of foaming white, and all of the men knew the colors of the sea.
    """,
)

POLE = Manuscript(
    headline="An enterprise regarded with evil forebodings",
    byline="Mary Shelley",
    text="""
        You will rejoice to hear that no disaster has accompanied the commencement of an enterprise
        which you have regarded with such evil forebodings. I arrived here yesterday, and my first
        task is to assure my dear sister of my welfare and increasing confidence in the success of
        my undertaking. I am already far north of London.
    """,
)

TREASURE = Manuscript(
    headline="Treasure not yet lifted",
    byline="Robert Louis Stevenson",
    text="""
        Squire Trelawney, Dr. Livesey, and the rest of these gentlemen having asked me to write down
        the whole particulars about Treasure Island, from the beginning to the end, keeping nothing
        back but the bearings of the island, and that only because there is still treasure not yet
        lifted, I take up my pen in the year of grace 17--, and go back to the time when my father
        kept the "Admiral Benbow" inn.
    """,
)

# What an author finds in the drawer when starting a story; the others are the seed's.
DRAWER = (BOHEMIA, OPEN_BOAT, POLE, TREASURE)
