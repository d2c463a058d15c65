"""What is stored: runs, their journal, their open questions, and the state of their steps."""

from .checkpoint import StepCheckpoint
from .chunk import Chunk
from .event import Event
from .hook import Hook
from .run import Run
from .sweep import Sweep

__all__ = ["Chunk", "Event", "Hook", "Run", "StepCheckpoint", "Sweep"]
