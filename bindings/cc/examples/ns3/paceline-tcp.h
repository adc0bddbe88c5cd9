/* SPDX-License-Identifier: MIT */
/*
 * Controllers of paceline as TCPs of ns-3: an object whose attribute Spec is the controller. Tried with ns-3.37.
 *
 *     Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(PacelineTcp::GetTypeId()));
 *     Config::SetDefault("ns3::PacelineTcp::Spec", StringValue("copa:delta=0.1"));
 *
 * ns-3 finds losses, sends again and counts; the controller sets the window, the pacing rate and the threshold. What ns-3 does not tell a
 * congestion control is found here: when each segment left, by the trace of the highest position sent, and so its round trip (PktsAcked gets
 * a smoothed one); and each loss is taken to be repaired by the report after it. The first report has the handshake's round trip, and each
 * says what limits the flow: the window, where the application has written enough.
 */
#ifndef PACELINE_TCP_H
#define PACELINE_TCP_H

#include <deque>
#include <ns3/event-id.h>
#include <ns3/tcp-congestion-ops.h>
#include <paceline_cc.h>
#include <utility>

namespace ns3
{

class PacelineTcp : public TcpCongestionOps
{
  public:
    static TypeId GetTypeId();
    PacelineTcp();
    PacelineTcp(const PacelineTcp& other);
    ~PacelineTcp() override;

    std::string GetName() const override;
    void Init(Ptr<TcpSocketState> tcb) override;
    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override;
    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override;
    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked, const Time& rtt) override;
    void CongestionStateSet(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCongState_t state) override;
    void CwndEvent(Ptr<TcpSocketState> tcb, const TcpSocketState::TcpCAEvent_t event) override;
    bool HasCongControl() const override;
    void CongControl(Ptr<TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& rc,
                     const TcpRateOps::TcpRateSample& rs) override;
    Ptr<TcpCongestionOps> Fork() override;

  private:
    void Departed(SequenceNumber32 before, SequenceNumber32 mark);
    void Measure();
    void Report(const TcpSocketState& tcb);
    void Apply();
    void Tick();

    std::string m_spec;
    paceline_counted* m_flow{nullptr};
    paceline_counters m_counters{};
    paceline_state m_state{};
    uint64_t m_delivered{0}; //!< bytes, acknowledged and above holes
    uint64_t m_lost{0};      //!< bytes
    uint32_t m_limit{PACELINE_LIMIT_UNKNOWN};
    std::deque<std::pair<uint64_t, uint64_t>> m_departures; //!< what left: its end, and when
    Ptr<TcpSocketState> m_tcb;
    EventId m_tick;
};

} // namespace ns3

#endif
