-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- Post-dissector for what is ours in the Hop-by-Hop header of in-band telemetry: the edge-to-edge option (type 0x1E) and the
-- words of IOAM namespaces 0x8001 and 0x8002. Wireshark dissects the rest of the trace by itself (ipv6.opt.ioam).
-- docs/design/telemetry-wire.md has the format.
--
--     tshark -X lua_script:scripts/wireshark/paceline-int.lua -r FILE -Y paceline_int -V
--
-- A value that a hop or the source does not know is left out.

local NAMESPACE, WIDE_NAMESPACE, TRACE, EDGE = 0x8001, 0x8002, 0x31, 0x1e
-- The trace type of the word that is one for all hops.
local WORD = 0x001000
local UNKNOWN = 0xffff

local paceline = Proto("paceline_int", "paceline in-band telemetry")
local names = {
    seq = ProtoField.uint32("paceline_int.seq", "Sequence number"),
    segs = ProtoField.uint8("paceline_int.segs", "Segments that share this header"),
    sampled = ProtoField.bool("paceline_int.sampled", "Packets without a header have numbers too"),
    sent = ProtoField.uint32("paceline_int.sent_us", "Sent at (microseconds, low 32 bits)"),
    cwnd = ProtoField.uint32("paceline_int.cwnd", "Congestion window (packets)"),
    flow = ProtoField.uint32("paceline_int.flow", "Flow", base.HEX),
    ssthresh = ProtoField.uint16("paceline_int.ssthresh", "Slow-start threshold (packets)"),
    srtt = ProtoField.uint32("paceline_int.srtt_us", "Smoothed RTT (microseconds)"),
    node = ProtoField.uint24("paceline_int.hop.node", "Hop"),
    room = ProtoField.uint16("paceline_int.hop.room", "Room (packets)"),
    flows = ProtoField.uint8("paceline_int.hop.flows", "Flows"),
    arrival = ProtoField.double("paceline_int.hop.arrival", "Arrival rate (packets/s)"),
    lost = ProtoField.uint16("paceline_int.hop.lost", "Frames lost by the link (modulo 65536)"),
    dropped = ProtoField.uint16("paceline_int.hop.dropped", "Packets dropped by the queue (modulo 65536)"),
    rssi = ProtoField.int8("paceline_int.hop.rssi", "Signal (dBm)"),
    streams = ProtoField.uint8("paceline_int.hop.streams", "Radio streams"),
    mcs = ProtoField.uint8("paceline_int.hop.mcs", "MCS index"),
    rate = ProtoField.double("paceline_int.hop.rate", "Data rate (Mbit/s)"),
    own = ProtoField.uint16("paceline_int.hop.flow_dropped", "Packets of this flow dropped by the queue (modulo 65536)"),
    occupancy = ProtoField.double("paceline_int.hop.occupancy", "Share of the queue in use"),
    available = ProtoField.double("paceline_int.word.available", "Smallest available bandwidth (Mbit/s)"),
    share = ProtoField.double("paceline_int.word.share", "Smallest available share of a link"),
    delay = ProtoField.double("paceline_int.word.delay", "Largest delay of a hop (ms)"),
    worst = ProtoField.uint8("paceline_int.word.hlim", "Hop limit behind the hop that says so"),
    overflow = ProtoField.bool("paceline_int.overflow", "A hop found no room"),
}
local fields = {}
for _, field in pairs(names) do
    fields[#fields + 1] = field
end
paceline.fields = fields
local version = ProtoExpert.new("paceline_int.version", "Edge-to-edge option of another version", expert.group.UNDECODED, expert.severity.NOTE)
paceline.experts = { version }

local header_field = Field.new("ipv6.hopopts")

-- Words of four octets by bit of the trace type; what is not here has none of ours and one word.
local WORDS = { [8] = 2, [9] = 2, [10] = 2 }

local function set(value, bit, width)
    return math.floor(value / 2 ^ (width - 1 - bit)) % 2 == 1
end

local function short_word(tree, word)
    local room, flows, code = word(0, 2), word(2, 1), word(3, 1)
    if room:uint() ~= UNKNOWN then tree:add(names.room, room) end
    if flows:uint() ~= 0xff then tree:add(names.flows, flows) end
    local c = code:uint()
    if c ~= 0xff then tree:add(names.arrival, code, c == 0 and 0 or 2 ^ (math.min(c, 248) / 8)) end
end

-- Five bits of an exponent, eleven of a mantissa that it shifts.
local function short_float(range)
    local code = range:uint()
    return code % 2048 * 2 ^ math.floor(code / 2048)
end

local function wide_word(tree, word, namespace)
    if word(0, 4):uint() == 0xffffffff and word(4, 4):uint() == 0xffffffff then return end
    local lost, dropped, rssi, mcs, rate = word(0, 2), word(2, 2), word(4, 1), word(5, 1), word(6, 2)
    if lost:uint() ~= UNKNOWN then tree:add(names.lost, lost) end
    if dropped:uint() ~= UNKNOWN then tree:add(names.dropped, dropped) end
    if rssi:uint() > 0x80 or rssi:uint() == 0 then tree:add(names.rssi, rssi) end
    if mcs:uint() ~= 0xff then
        tree:add(names.streams, mcs, math.floor(mcs:uint() / 32) + 1)
        tree:add(names.mcs, mcs, mcs:uint() % 32)
    end
    if rate:uint() ~= UNKNOWN then
        tree:add(names.rate, rate, (namespace == NAMESPACE and rate:uint() or short_float(rate)) / 10)
    end
end

local function queue_word(tree, word)
    local own, share = word(0, 2), word(2, 2)
    if own:uint() ~= UNKNOWN then tree:add(names.own, own) end
    if share:uint() ~= UNKNOWN then tree:add(names.occupancy, share, share:uint() / 65535) end
end

local function path_word(tree, word)
    local signal, hop, value = word(0, 1):uint(), word(1, 1), word(2, 2)
    if value:uint() == UNKNOWN then return end
    tree:add(names.worst, hop)
    if signal == 0 then tree:add(names.available, value, short_float(value) / 10) end
    if signal == 1 then tree:add(names.share, value, value:uint() / 65535) end
    if signal == 2 then tree:add(names.delay, value, short_float(value) / 1e6) end
end

local function record(tree, kind, words, namespace)
    -- Bit 0 comes first wherever it is set: hop limit, then the node.
    local hop = set(kind, 0, 24) and tree:add(names.node, words(1, 3)) or tree
    local at = 0
    for bit = 0, 11 do
        if set(kind, bit, 24) then
            local length = 4 * (WORDS[bit] or 1)
            if at + length > words:len() then return end
            local word = function(offset, count) return words(at + offset, count) end
            if bit == 5 then short_word(hop, word) end
            if bit == 10 then wide_word(hop, word, namespace) end
            if bit == 11 then queue_word(hop, word) end
            at = at + length
        end
    end
end

-- The first hop's record is the last.
local function trace(tree, body)
    if body:len() < 10 or body(1, 1):uint() ~= 0 then return end
    local namespace, kind = body(2, 2):uint(), body(6, 3):uint()
    if namespace ~= NAMESPACE and namespace ~= WIDE_NAMESPACE then return end
    local length = 4 * math.floor(body(4, 1):uint() / 8)
    local free = 4 * (body(5, 1):uint() % 128)
    if math.floor(body(4, 1):uint() / 4) % 2 == 1 then tree:add(names.overflow, body(4, 1), true) end
    if length == 0 then return end
    if namespace == WIDE_NAMESPACE and kind == WORD then
        if body:len() == 14 then path_word(tree, body(10, 4)) end
        return
    end
    local at = body:len() - length
    while at >= 10 + free do
        record(tree, kind, body(at, length), namespace)
        at = at - length
    end
end

local function edge(tree, body)
    if body:len() < 1 then return end
    local first = body(0, 1):uint()
    if math.floor(first / 16) ~= 1 then
        tree:add_proto_expert_info(version)
        return
    end
    if body:len() ~= 14 and body:len() ~= 22 then return end
    if first % 2 == 1 then tree:add(names.sampled, body(0, 1), true) end
    tree:add(names.segs, body(1, 1))
    tree:add(names.seq, body(2, 4))
    tree:add(names.sent, body(6, 4))
    if set(first, 4, 8) then tree:add(names.cwnd, body(10, 4)) end
    if set(first, 5, 8) and body:len() == 22 then
        tree:add(names.flow, body(14, 4))
        tree:add(names.ssthresh, body(18, 2))
        tree:add(names.srtt, body(20, 2), 64 * body(20, 2):uint())
    end
end

function paceline.dissector(_, _, root)
    local found = header_field()
    if not found then return end
    local header = found.range
    local tree, at = nil, 2
    while at + 1 < header:len() do
        local kind = header(at, 1):uint()
        if kind == 0 then
            at = at + 1
        else
            local length = header(at + 1, 1):uint()
            if at + 2 + length > header:len() then return end
            if length > 0 and (kind == TRACE or kind == EDGE) then
                tree = tree or root:add(paceline, header)
                local body = header(at + 2, length)
                if kind == TRACE then trace(tree, body) else edge(tree, body) end
            end
            at = at + 2 + length
        end
    end
end

register_postdissector(paceline)
