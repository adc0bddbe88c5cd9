/* SPDX-License-Identifier: MIT */
/*
 * dumbbell SPEC SECONDS: one flow over 12 Mbit/s, 20 ms each way, a queue of 200 packets. Prints throughput and one-way delay.
 */
#include "paceline-tcp.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <ns3/applications-module.h>
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-helper.h>
#include <vector>

using namespace ns3;

static std::vector<double> g_delays;
static std::deque<Time> g_entered;

static void
Enqueued(Ptr<const Packet>)
{
    g_entered.push_back(Simulator::Now());
}

/// Packets keep their order.
static void
Arrived(Ptr<const Packet>)
{
    g_delays.push_back((Simulator::Now() - g_entered.front()).GetSeconds() * 1e3);
    g_entered.pop_front();
}

int
main(int argc, char** argv)
{
    const std::string spec = argc > 1 ? argv[1] : "copa";
    const double seconds = argc > 2 ? std::atof(argv[2]) : 20;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(PacelineTcp::GetTypeId()));
    Config::SetDefault("ns3::PacelineTcp::Spec", StringValue(spec));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    // Time stamps of a millisecond would be the RTT's resolution.
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));

    NodeContainer nodes;
    nodes.Create(3);
    PointToPointHelper fast;
    PointToPointHelper slow;
    fast.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    fast.SetChannelAttribute("Delay", StringValue("0ms"));
    slow.SetDeviceAttribute("DataRate", StringValue("12Mbps"));
    slow.SetChannelAttribute("Delay", StringValue("20ms"));
    slow.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("200p"));
    NetDeviceContainer one = fast.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer two = slow.Install(nodes.Get(1), nodes.Get(2));
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.1.0", "255.255.255.0");
    addresses.Assign(one);
    addresses.SetBase("10.0.2.0", "255.255.255.0");
    Ipv4InterfaceContainer last = addresses.Assign(two);
    // The queue is that of the device alone.
    for (uint32_t index = 0; index < 2; index++)
    {
        TrafficControlHelper().Uninstall(two.Get(index));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const InetSocketAddress peer(last.GetAddress(1), 9);
    BulkSendHelper bulk("ns3::TcpSocketFactory", peer);
    bulk.Install(nodes.Get(0)).Start(Seconds(0));
    ApplicationContainer sink = PacketSinkHelper("ns3::TcpSocketFactory", peer).Install(nodes.Get(2));
    DynamicCast<PointToPointNetDevice>(two.Get(0))->GetQueue()->TraceConnectWithoutContext("Enqueue", MakeCallback(&Enqueued));
    two.Get(1)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&Arrived));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const uint64_t bytes = DynamicCast<PacketSink>(sink.Get(0))->GetTotalRx();
    std::sort(g_delays.begin(), g_delays.end());
    const double p95 = g_delays.empty() ? 0 : g_delays[g_delays.size() * 95 / 100];
    std::printf("%s: %.3f Mbit/s, delay p95 %.1f ms\n", spec.c_str(), static_cast<double>(bytes) * 8 / seconds / 1e6, p95);
    Simulator::Destroy();
    return 0;
}
