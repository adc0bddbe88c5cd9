/* SPDX-License-Identifier: MIT */
#include "paceline-tcp.h"

#include <algorithm>
#include <limits>
#include <ns3/log.h>
#include <ns3/simulator.h>
#include <ns3/string.h>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("PacelineTcp");
NS_OBJECT_ENSURE_REGISTERED(PacelineTcp);

static void
Done(int outcome)
{
    if (outcome != 0)
    {
        NS_FATAL_ERROR("paceline: " << paceline_cc_error());
    }
}

/// A position of 32 bits behind one of 64.
static uint64_t
Unwrap(uint64_t before, SequenceNumber32 now)
{
    return before + static_cast<uint32_t>(now.GetValue() - static_cast<uint32_t>(before));
}

TypeId
PacelineTcp::GetTypeId()
{
    static TypeId tid = TypeId("ns3::PacelineTcp")
                            .SetParent<TcpCongestionOps>()
                            .SetGroupName("Internet")
                            .AddConstructor<PacelineTcp>()
                            .AddAttribute("Spec",
                                          "The controller and its parameters",
                                          StringValue("cubic"),
                                          MakeStringAccessor(&PacelineTcp::m_spec),
                                          MakeStringChecker());
    return tid;
}

PacelineTcp::PacelineTcp() = default;

PacelineTcp::PacelineTcp(const PacelineTcp& other)
    : TcpCongestionOps(other),
      m_spec(other.m_spec)
{
}

PacelineTcp::~PacelineTcp()
{
    m_tick.Cancel();
    paceline_counted_free(m_flow);
}

std::string
PacelineTcp::GetName() const
{
    return m_spec;
}

Ptr<TcpCongestionOps>
PacelineTcp::Fork()
{
    return CopyObject<PacelineTcp>(this);
}

void
PacelineTcp::Init(Ptr<TcpSocketState> tcb)
{
    m_tcb = tcb;
    paceline_counted_free(m_flow);
    m_flow = nullptr;
    m_counters = paceline_counters{};
    m_counters.size = sizeof(m_counters);
    m_counters.mss = tcb->m_segmentSize;
    m_delivered = m_lost = 0;
    m_departures.clear();
    tcb->m_highTxMark.ConnectWithoutContext(MakeCallback(&PacelineTcp::Departed, this));
}

/// New data left.
void
PacelineTcp::Departed(SequenceNumber32, SequenceNumber32 mark)
{
    const uint64_t now = static_cast<uint64_t>(Simulator::Now().GetNanoSeconds());
    const uint64_t last = m_departures.empty() ? m_counters.next : m_departures.back().first;
    const uint64_t end = Unwrap(last, mark);
    if (end <= last + m_tcb->m_segmentSize)
    {
        m_departures.emplace_back(end, now);
        m_counters.first_departure = m_counters.flags & PACELINE_COUNTERS_DEPARTURES ? m_counters.first_departure : now;
        m_counters.last_departure = now;
        m_counters.flags |= PACELINE_COUNTERS_DEPARTURES;
    }
}

/// Round trips of what was acknowledged, where nothing is repaired.
void
PacelineTcp::Measure()
{
    paceline_counters& now = m_counters;
    while (!m_departures.empty() && m_departures.front().first <= now.una)
    {
        const uint64_t rtt = now.at - m_departures.front().second;
        m_departures.pop_front();
        if (now.phase == PACELINE_PHASE_OPEN && now.ahead == 0)
        {
            now.rtt_least = now.flags & PACELINE_COUNTERS_RTT ? std::min(now.rtt_least, rtt) : rtt;
            now.rtt_newest = rtt;
            now.flags |= PACELINE_COUNTERS_RTT;
        }
    }
}

/// Where the connection stands.
void
PacelineTcp::Report(const TcpSocketState& tcb)
{
    paceline_counters& now = m_counters;
    const uint64_t mss = std::max<uint32_t>(tcb.m_segmentSize, 1);
    now.mss = static_cast<uint32_t>(mss);
    now.at = static_cast<uint64_t>(Simulator::Now().GetNanoSeconds());
    now.una = Unwrap(now.una, tcb.m_lastAckedSeq);
    now.next = std::max(Unwrap(now.next, tcb.m_highTxMark), now.una);
    now.unsent = std::numeric_limits<uint64_t>::max() / 2;
    now.in_flight = static_cast<uint32_t>((tcb.m_bytesInFlight + mss - 1) / mss);
    now.ahead = m_delivered > now.una ? static_cast<uint32_t>((m_delivered - now.una) / mss) : 0;
    // Holes are the lowest of what is outstanding, and what is in flight the highest.
    now.highest = now.ahead > 0 ? std::max(now.una, now.next - std::min<uint64_t>(now.next, tcb.m_bytesInFlight)) : now.una;
    now.resent = now.lost;
    now.lost = m_lost / mss;
    now.limit = m_limit;
    switch (tcb.m_congState)
    {
    case TcpSocketState::CA_CWR:
        now.phase = PACELINE_PHASE_CWR;
        break;
    case TcpSocketState::CA_RECOVERY:
        now.phase = PACELINE_PHASE_RECOVERY;
        break;
    case TcpSocketState::CA_LOSS:
        now.phase = PACELINE_PHASE_LOSS;
        break;
    default:
        now.phase = PACELINE_PHASE_OPEN;
    }
    Measure();
    if (m_flow == nullptr)
    {
        if (tcb.m_lastRtt.Get().IsStrictlyPositive())
        {
            // The handshake's.
            now.rtt_newest = now.rtt_least = static_cast<uint64_t>(tcb.m_lastRtt.Get().GetNanoSeconds());
            now.flags |= PACELINE_COUNTERS_RTT;
        }
        paceline_env env{};
        env.size = sizeof(env);
        env.mss = now.mss;
        env.seed = 1;
        Done(paceline_counted_new(m_spec.c_str(), &env, &now, &m_flow));
    }
    else
    {
        Done(paceline_counted_report(m_flow, &now));
    }
    now.flags = 0;
    m_state.size = sizeof(m_state);
    Done(paceline_counted_state(m_flow, &m_state));
}

/// What the controller permits, in ns-3's terms.
void
PacelineTcp::Apply()
{
    const uint64_t most = std::numeric_limits<uint32_t>::max();
    m_tcb->m_cWnd = static_cast<uint32_t>(std::min(m_state.window, most));
    m_tcb->m_pacing = m_state.pacing == PACELINE_PACING_RATE;
    if (m_tcb->m_pacing)
    {
        m_tcb->m_pacingRate = DataRate(std::max<uint64_t>(m_state.pace, 1) * 8);
    }
    m_tick.Cancel();
    if (m_state.next_tick != UINT64_MAX)
    {
        const uint64_t now = static_cast<uint64_t>(Simulator::Now().GetNanoSeconds());
        const uint64_t wait = m_state.next_tick > now ? m_state.next_tick - now : 0;
        m_tick = Simulator::Schedule(NanoSeconds(wait), &PacelineTcp::Tick, this);
    }
}

void
PacelineTcp::Tick()
{
    Done(paceline_counted_tick(m_flow, static_cast<uint64_t>(Simulator::Now().GetNanoSeconds())));
    Done(paceline_counted_state(m_flow, &m_state));
    Apply();
}

void
PacelineTcp::PktsAcked(Ptr<TcpSocketState>, uint32_t, const Time&)
{
    // Its RTT is smoothed; see Measure.
}

void
PacelineTcp::CongControl(Ptr<TcpSocketState> tcb, const TcpRateOps::TcpRateConnection& rc, const TcpRateOps::TcpRateSample& rs)
{
    m_delivered = rc.m_delivered + 1; // Data begins behind the SYN.
    m_lost += rs.m_bytesLoss;
    m_limit = rc.m_appLimited == 0 ? PACELINE_LIMIT_WINDOW : PACELINE_LIMIT_APPLICATION;
    if (tcb->m_congState == TcpSocketState::CA_OPEN || tcb->m_congState == TcpSocketState::CA_DISORDER)
    {
        m_counters.backoff = 0;
    }
    Report(*tcb);
    Apply();
}

uint32_t
PacelineTcp::GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t)
{
    // The state that is entered is set after this.
    if (m_flow != nullptr)
    {
        Report(*tcb);
    }
    const uint64_t threshold = m_flow == nullptr ? UINT64_MAX : std::min(m_state.threshold, m_state.window);
    return static_cast<uint32_t>(std::min<uint64_t>(std::max<uint64_t>(threshold, 2 * tcb->m_segmentSize),
                                                    std::numeric_limits<uint32_t>::max()));
}

void
PacelineTcp::CongestionStateSet(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCongState_t state)
{
    m_counters.recoveries += state == TcpSocketState::CA_RECOVERY;
    m_counters.echoes += state == TcpSocketState::CA_CWR;
    if (state == TcpSocketState::CA_LOSS)
    {
        m_counters.timeouts++;
        m_counters.backoff++;
        // All that is outstanding.
        m_lost += tcb->m_bytesInFlight;
    }
}

void
PacelineTcp::CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event)
{
    if (event == TcpSocketState::CA_EVENT_TX_START)
    {
        // The first data, or data after a silence.
        Report(*tcb);
        Apply();
    }
}

bool
PacelineTcp::HasCongControl() const
{
    return true;
}

void
PacelineTcp::IncreaseWindow(Ptr<TcpSocketState>, uint32_t)
{
    // CongControl sets it.
}

} // namespace ns3
