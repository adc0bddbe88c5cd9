"""What the package is made of; not for users."""

from os import PathLike
from pathlib import Path
from typing import Any, Callable, Optional, TypedDict, Union

__version__: str

class ScenarioError(ValueError):
    """A scenario, or an option of a run, is wrong."""

    key: Optional[str]

class Given(TypedDict):
    contestants: Any
    runs: Optional[int]
    seed: Optional[int]
    seconds: Union[str, float, None]
    set: dict[str, Any]

class Table:
    def __init__(self, columns: list[tuple[str, str, list[Any]]]) -> None: ...
    @property
    def column_names(self) -> list[str]:
        """The columns' names."""
    def __len__(self) -> int: ...
    def column(self, name: str) -> list[Any]: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...

class Failed:
    """A run that did not reach its end."""

    def __init__(self, contestant: str, run: int, seed: int, message: str, exception: Optional[BaseException]) -> None: ...

    @property
    def contestant(self) -> str:
        """`CONTROLLER@VIA`."""
    @property
    def run(self) -> int:
        """Number of the run."""
    @property
    def seed(self) -> int:
        """Seed of the race; with the number it shows the failure again."""
    @property
    def message(self) -> str:
        """What happened, in one line."""
    @property
    def exception(self) -> Optional[BaseException]:
        """What a controller in Python raised."""

class Records:
    @property
    def failures(self) -> list[Failed]:
        """Runs that did not reach their end."""
    def __len__(self) -> int: ...
    def json(self) -> list[str]: ...
    def records(self) -> Table: ...
    def quantiles(self) -> Table: ...
    def series(self) -> Table: ...
    def variables(self) -> Table: ...
    def events(self) -> Table: ...

def colour(controller: str) -> tuple[str, str]: ...
def run(
    scenario: Union[str, PathLike[str], dict[str, Any]],
    folder: Optional[str],
    given: Given,
    threads: int,
    step: Union[bool, str, float, None],
    events: bool,
    logs: Optional[str],
    real: bool,
    run_programs: bool,
    keep: Optional[str],
    progress: Optional[Callable[[int, int], object]],
) -> Records: ...
def tend(arguments: list[str]) -> int: ...
def read_records(path: str) -> Records: ...
def evaluate(
    name: str, quick: bool, only: list[str], threads: int, progress: Optional[Callable[[int, int], object]]
) -> tuple[list[str], str, str]: ...
def conform(
    name: Optional[str],
    rules_of: Optional[str],
    files: list[tuple[str, str]],
    chosen: tuple[Optional[int], Optional[str]],
    threads: int,
    progress: Optional[Callable[[int, int], object]],
) -> tuple[list[str], str, str]: ...
def replay(path: str, controller: Optional[str]) -> str: ...
def send(
    to: str,
    controller: str,
    bytes: Optional[int],
    time: Optional[float],
    secret: Optional[bytes],
    timeout: float,
) -> dict[str, Any]: ...

class Server:
    def __init__(self, listen: str, secret: Optional[bytes], timeout: float) -> None: ...
    @property
    def address(self) -> str:
        """Where it listens."""
    def sessions(self) -> list[tuple[str, int, float]]: ...
    def problems(self) -> list[str]: ...
    def close(self) -> None: ...

class Uploads:
    def __init__(self, folder: str, listen: str, secret: Optional[bytes], name: str, timeout: float) -> None: ...
    @property
    def address(self) -> str:
        """Where it listens."""
    def token(self, scope: str, days: Optional[int]) -> str: ...
    def sessions(self) -> list[tuple[Optional[str], Optional[str], int, str]]: ...
    def close(self) -> None: ...

def upload(
    path: str, to: str, name: str, sender: str, token: Optional[str], timeout: float
) -> tuple[int, int, float, bool]: ...
def download(name: str, server: str, path: str, token: Optional[str], timeout: float) -> tuple[int, int, float, bool]: ...
def read_scenario(path: Union[str, PathLike[str]]) -> str: ...
def effective_scenario(
    scenario: Union[str, PathLike[str], dict[str, Any]], folder: Optional[str], given: Given
) -> str: ...

class Env:
    @property
    def mss(self) -> int:
        """Payload bytes of a full packet."""
    @property
    def seed(self) -> int:
        """Seeds the controller's own generator, where it needs one."""
    @property
    def paced(self) -> bool:
        """Whether the datapath paces what the controller does not."""

class Sent:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def seq(self) -> int:
        """Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it."""
    @property
    def bytes(self) -> int:
        """Payload bytes."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight, this packet included."""
    @property
    def retransmission(self) -> bool:
        """Whether the payload was sent before."""
    @property
    def app_limited(self) -> bool:
        """Whether the application had less to send than the window allows."""
    @property
    def unsent(self) -> int:
        """Bytes that the application has handed over and that have not been sent."""

class Restart:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def idle(self) -> int:
        """Time since the last packet left, ns."""
    @property
    def rto(self) -> int:
        """The retransmission timeout at present, ns, without back-off."""

class RateSample:
    @property
    def delivered(self) -> int:
        """Bytes delivered over the interval."""
    @property
    def interval(self) -> int:
        """Length of the interval, ns; never zero."""
    @property
    def prior_delivered(self) -> int:
        """Delivered bytes of the flow when the sampled packet was sent: a round trip ends when this passes the count at its start."""
    @property
    def app_limited(self) -> bool:
        """Whether the application limited the flow when the sampled packet was sent."""
    @property
    def retransmission(self) -> bool:
        """Whether the sampled packet was sent again."""
    @property
    def bytes_per_s(self) -> int:
        """Delivered bytes over the interval, bytes per second."""

class Loss:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def packets(self) -> list[Lost]:
        """The packets, in the order of sending; never empty."""
    @property
    def bytes(self) -> int:
        """Payload bytes of the packets."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight now."""
    @property
    def new_episode(self) -> bool:
        """Whether this is the first loss of an episode: a reduction is due once per episode."""

class Timeout:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def packets(self) -> list[Lost]:
        """The packets that it declares lost, in the order of sending, as far as the datapath knows them."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before."""
    @property
    def in_flight(self) -> int:
        """Bytes still thought to be in flight (RFC 8985 section 6.3)."""
    @property
    def count(self) -> int:
        """How many times in a row, from 1."""

class Telemetry:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def verdict(self) -> str:
        """Why packets were lost lately, as the receiver sees it: ``unknown`` where none was, else as in :class:`Lost`."""
    @property
    def fresh_for(self) -> int:
        """For how long from now on the report may be relied upon, ns."""
    @property
    def hops(self) -> list[Hop]:
        """The hops in the direction of data."""

class Hop:
    @property
    def id(self) -> int:
        """Its node's number, unique on the path."""
    @property
    def arrived_at(self) -> Optional[int]:
        """When the packet came, ns of the hop's own clock: only differences mean anything."""
    @property
    def delay(self) -> Optional[int]:
        """How long the packet stayed, ns."""
    @property
    def queue_bytes(self) -> Optional[int]:
        """Bytes waiting as the packet left."""
    @property
    def room_packets(self) -> Optional[int]:
        """Packets for which its queue had room."""
    @property
    def limit_packets(self) -> Optional[int]:
        """Packets that its queue holds when it is full."""
    @property
    def capacity(self) -> Optional[int]:
        """Capacity of the link at present, bytes per second."""
    @property
    def arrival(self) -> Optional[int]:
        """Rate at which traffic arrives, bytes per second."""
    @property
    def flows(self) -> Optional[int]:
        """Flows seen lately."""
    @property
    def drops(self) -> Optional[int]:
        """Packets that its queue has dropped, modulo 2^32: only differences mean anything."""
    @property
    def signal_dbm(self) -> Optional[float]:
        """Radio signal, dBm, where the hop is a radio."""
    @property
    def radio_retry_share(self) -> Optional[float]:
        """Share of frames that the radio had to send again, 0 to 1."""

class Ack:
    @property
    def now(self) -> int:
        """When it happened, ns of the datapath's clock."""
    @property
    def packets(self) -> list[Acked]:
        """Packets newly delivered, in the order of sending; empty where it brought marks alone."""
    @property
    def bytes(self) -> int:
        """Payload bytes newly delivered."""
    @property
    def rtt(self) -> Optional[int]:
        """RTT of the newest of the packets that was sent once, ns; above 0, or None."""
    @property
    def srtt(self) -> int:
        """Smoothed RTT (RFC 6298), ns; zero before the first sample."""
    @property
    def min_rtt(self) -> Optional[int]:
        """Smallest RTT since the flow began, ns; above 0, and None before the first sample."""
    @property
    def rate(self) -> Optional[RateSample]:
        """A delivery-rate sample, where a valid one could be made."""
    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight now."""
    @property
    def lost_bytes(self) -> int:
        """Bytes found lost by this acknowledgement; ``on_loss`` has had them."""
    @property
    def ce_bytes(self) -> int:
        """Newly delivered bytes that carried a CE mark."""
    @property
    def ce_packets(self) -> int:
        """Packets behind ``ce_bytes``."""
    @property
    def echo(self) -> bool:
        """Whether this is the first congestion echo of its round trip."""
    @property
    def delivered(self) -> int:
        """Payload bytes delivered since the flow began, these included."""
    @property
    def una(self) -> int:
        """Everything below this position has been delivered."""
    @property
    def next(self) -> int:
        """Position of the next new byte to send."""
    @property
    def phase(self) -> str:
        """Where loss recovery stands afterwards: ``open``, ``cwr``, ``recovery`` or ``loss``."""
    @property
    def window_limited(self) -> bool:
        """Whether the window, not the application, limited the flow when the newest of the packets was sent: windows grow only
        then (RFC 9438 section 4.2).
        """

class Lost:
    @property
    def seq(self) -> int:
        """Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it."""
    @property
    def bytes(self) -> int:
        """Payload bytes."""
    @property
    def sent_at(self) -> int:
        """When it was last sent, ns of the datapath's clock."""
    @property
    def tag(self) -> int:
        """What ``on_sent`` answered for this packet."""
    @property
    def cause(self) -> str:
        """Why, where the path has said so: ``unknown``, ``congestion``, ``aqm``, ``policer``, ``medium`` or ``handover``."""

class Acked:
    @property
    def seq(self) -> int:
        """Position of the packet's first payload byte in the stream; of datagrams, payload bytes sent before it."""
    @property
    def bytes(self) -> int:
        """Payload bytes."""
    @property
    def sent_at(self) -> int:
        """When it was last sent, ns of the datapath's clock."""
    @property
    def tag(self) -> int:
        """What ``on_sent`` answered for this packet."""
    @property
    def retransmitted(self) -> bool:
        """Whether it was sent more than once, so that its RTT is ambiguous."""
    @property
    def app_limited(self) -> bool:
        """Whether the application limited the flow when it was sent."""
    @property
    def ce(self) -> bool:
        """Whether it carried a CE mark."""
    @property
    def received_at(self) -> Optional[int]:
        """The receiver's clock at its arrival, ns, where the feedback has it: only differences mean anything."""

def register_controller(
    cls: type,
    name: str,
    summary: str,
    params: list[tuple[str, Any]],
    shown: list[str],
) -> None: ...

SCENARIO_KEYS: dict[str, list[str]]
METHODS: list[str]
OBSERVATION: list[tuple[str, float, float, str]]
FIGURES: list[tuple[str, str]]
#: Observations, rewards, ends of flows, ends of time, figures.
Stepped = tuple[bytearray, bytearray, bytearray, bytearray, bytearray]

class Batch:
    def __init__(
        self,
        scenario: Union[str, PathLike[str], dict[str, Any]],
        folder: Optional[str],
        given: Given,
        count: int,
        via: str,
        step: Union[str, float],
        action: str,
    ) -> None: ...
    def reset(self, seeds: list[Optional[int]]) -> Stepped: ...
    def step(self, actions: bytes) -> Stepped: ...

def register_policy(name: str, policy: Any, step: Union[str, float], action: str) -> None: ...

class Sweep:
    def __init__(self, grid: Union[str, PathLike[str], dict[str, Any]], folder: str) -> None: ...
    def to_json(self) -> str: ...
    def identity(self) -> str: ...
    @staticmethod
    def from_json(text: str) -> Sweep: ...
    def controllers(self) -> list[str]: ...
    def with_digests(self, digests: dict[str, str]) -> Sweep: ...
    def run(self, index: int) -> tuple[Optional[str], Optional[str]]: ...

class Folder:
    def __init__(self, path: str, sweep: Sweep, part: Optional[str]) -> None: ...
    def retry(self) -> int: ...
    def missing(self) -> list[int]: ...
    def made(self) -> int: ...
    def put(self, results: list[tuple[int, Optional[str], Optional[str]]]) -> None: ...
    def write_cells(self) -> None: ...
    def failures(self) -> list[tuple[str, int, int, list[str], str]]: ...
    def chunks(self) -> list[Path]: ...
