//! A NATS server as the bus. One thread holds the connection, reconnects, and passes messages on in both directions.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle as Task;

use crate::address::Address;
use crate::bus::{Outgoing, Shared};
use crate::subject::SubjectFilter;
use crate::subscription::Inbox;

/// Between two attempts to connect. Our choice: a report counts for at most 500 ms, so that a server that is back is found before
/// a second has passed.
const RETRY: Duration = Duration::from_millis(250);
/// How long an attempt may take. Our choice: a handshake with TLS over a link of 500 ms.
const CONNECT: Duration = Duration::from_secs(3);
/// How often a silent server is asked whether it is there. Our choice: what is older than a second is of no use.
const PING: Duration = Duration::from_secs(1);
/// Messages in the client that wait for the connection, and for us. Few: what waits is in our own queues, where the oldest is dropped.
const WAITING: usize = 64;
/// How long passing a message on may take before it is given up.
const PASS: Duration = Duration::from_secs(1);

enum Command {
    Join(Arc<Inbox>, SubjectFilter),
    Leave(usize, SubjectFilter),
    End,
}

/// The connection, and the thread that holds it.
pub(crate) struct Session {
    commands: UnboundedSender<Command>,
    wake: Arc<Notify>,
    connected: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    pub(crate) fn start(url: &str, address: &Address, shared: &Arc<Shared>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (commands, received) = unbounded_channel();
        let wake = Arc::new(Notify::new());
        let connected = Arc::new(AtomicBool::new(false));
        let mut server = Server {
            url: url.to_owned(),
            name: address.to_string(),
            shared: shared.clone(),
            wake: wake.clone(),
            connected: connected.clone(),
            commands: received,
            wanted: BTreeMap::new(),
            troubled: false,
        };
        let thread = thread::Builder::new().name("paceline-nats".to_owned());
        let thread = thread.spawn(move || runtime.block_on(server.serve()))?;
        Ok(Self { commands, wake, connected, thread: Some(thread) })
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    pub(crate) fn join(&self, inbox: &Arc<Inbox>, filter: &SubjectFilter) {
        let _ = self.commands.send(Command::Join(inbox.clone(), filter.clone()));
    }

    pub(crate) fn leave(&self, inbox: &Arc<Inbox>, filter: &SubjectFilter) {
        let _ = self.commands.send(Command::Leave(Arc::as_ptr(inbox).addr(), filter.clone()));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An address without what stands before its `@`, and that: a user and a password, or a token. As it is: nothing is decoded.
fn credentials(url: &str) -> (String, ConnectOptions) {
    let options = ConnectOptions::new();
    let split = url.split_once("//").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    let Some((scheme, (who, server))) = split else { return (url.to_owned(), options) };
    let options = match who.split_once(':') {
        Some((user, password)) => options.user_and_password(user.to_owned(), password.to_owned()),
        None => options.token(who.to_owned()),
    };
    (format!("{scheme}//{server}"), options)
}

/// What the thread has.
struct Server {
    url: String,
    /// For people: without credentials.
    name: String,
    shared: Arc<Shared>,
    wake: Arc<Notify>,
    connected: Arc<AtomicBool>,
    commands: UnboundedReceiver<Command>,
    /// By subscriber and filter.
    wanted: BTreeMap<(usize, SubjectFilter), Arc<Inbox>>,
    /// It was said that the server cannot be reached.
    troubled: bool,
}

/// A subscription's messages are passed on by a task, which ends with this.
struct Running(Task<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Tasks = BTreeMap<(usize, SubjectFilter), Running>;

/// What ends a connection for good.
enum Over {
    /// Another is to be made.
    Again,
    /// The session ends.
    Ended,
}

impl Server {
    async fn serve(&mut self) {
        loop {
            let (events, mut happened) = unbounded_channel();
            let Some(client) = self.connect(&events).await else { return };
            let over = self.pass(&client, &mut happened).await;
            self.connected.store(false, Ordering::Release);
            if matches!(over, Over::Ended) {
                // What was passed to the client is on its way when this has ended.
                let _ = tokio::time::timeout(PASS, client.flush()).await;
                return;
            }
            self.trouble("the connection has ended");
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Tries until there is a connection; `None`: the session ends.
    async fn connect(&mut self, events: &UnboundedSender<Event>) -> Option<Client> {
        loop {
            let events = events.clone();
            let (server, options) = credentials(&self.url);
            let options = options
                .name(&self.shared.options.name)
                .connection_timeout(CONNECT)
                .ping_interval(PING)
                .client_capacity(WAITING)
                .subscription_capacity(WAITING)
                .reconnect_delay_callback(|_| RETRY)
                .event_callback(move |event| {
                    let _ = events.send(event);
                    async {}
                });
            let attempt = options.connect(server);
            tokio::pin!(attempt);
            let result = loop {
                tokio::select! {
                    result = &mut attempt => break result,
                    command = self.commands.recv() => {
                        self.note(command)?;
                    }
                }
            };
            match result {
                Ok(client) => return Some(client),
                Err(error) => self.trouble(&error.to_string()),
            }
            let rest = tokio::time::sleep(RETRY);
            tokio::pin!(rest);
            loop {
                tokio::select! {
                    () = &mut rest => break,
                    command = self.commands.recv() => {
                        self.note(command)?;
                    }
                }
            }
        }
    }

    /// Once as long as it stays so.
    fn trouble(&mut self, why: &str) {
        if !self.troubled {
            self.shared.say(&format!("{}: {why}; trying again, reports wait or are dropped", self.name));
        }
        self.troubled = true;
    }

    /// Takes in a command; `None`: the session ends. Answers what is new.
    fn note(&mut self, command: Option<Command>) -> Option<Option<(usize, SubjectFilter)>> {
        match command {
            Some(Command::Join(inbox, filter)) => {
                let key = (Arc::as_ptr(&inbox).addr(), filter);
                self.wanted.insert(key.clone(), inbox);
                Some(Some(key))
            }
            Some(Command::Leave(inbox, filter)) => {
                self.wanted.remove(&(inbox, filter));
                Some(None)
            }
            Some(Command::End) | None => None,
        }
    }

    /// Passes messages on as long as the connection lives; the client reconnects by itself, and subscribes again.
    async fn pass(&mut self, client: &Client, happened: &mut UnboundedReceiver<Event>) -> Over {
        let mut tasks = Tasks::new();
        let keys: Vec<_> = self.wanted.keys().cloned().collect();
        for key in keys {
            self.run(client, &mut tasks, key);
        }
        self.up(client);
        let mut pace = tokio::time::interval(RETRY);
        loop {
            tokio::select! {
                command = self.commands.recv() => {
                    let Some(new) = self.note(command) else {
                        self.send(client).await;
                        return Over::Ended;
                    };
                    tasks.retain(|key, _| self.wanted.contains_key(key));
                    if let Some(key) = new {
                        self.run(client, &mut tasks, key);
                    }
                }
                event = happened.recv() => match event {
                    Some(Event::Connected) => self.up(client),
                    Some(Event::Disconnected) => self.down(),
                    Some(Event::Closed) | None => return Over::Again,
                    Some(Event::ServerError(error)) => self.shared.say(&format!("{}: {error}", self.name)),
                    Some(_) => {}
                },
                () = self.wake.notified() => self.send(client).await,
                _ = pace.tick() => self.send(client).await,
            }
        }
    }

    fn up(&mut self, client: &Client) {
        if client.connection_state() != State::Connected {
            return;
        }
        self.connected.store(true, Ordering::Release);
        if std::mem::take(&mut self.troubled) {
            self.shared.say(&format!("{}: connected", self.name));
        }
    }

    fn down(&mut self) {
        if self.connected.swap(false, Ordering::AcqRel) {
            self.shared.figures().lost += 1;
        }
        self.trouble("the server is gone");
    }

    /// Sends what waits, as long as there is a connection.
    async fn send(&self, client: &Client) {
        while client.connection_state() == State::Connected {
            let Some(item) = self.shared.outbox.pop() else { return };
            if self.shared.is_expired(&item) {
                continue;
            }
            let Outgoing { subject, bytes, .. } = item;
            match tokio::time::timeout(PASS, client.publish(subject, bytes.into())).await {
                Ok(Ok(())) => self.shared.figures().sent += 1,
                // Refused by the client: the connection ends, or has.
                _ => self.shared.figures().expired += 1,
            }
        }
    }

    /// Subscribes, and passes on what comes.
    fn run(&self, client: &Client, tasks: &mut Tasks, key: (usize, SubjectFilter)) {
        let Some(inbox) = self.wanted.get(&key).cloned() else { return };
        let pattern = key.1.pattern(&self.shared.options.domain);
        let client = client.clone();
        let task = tokio::spawn(async move {
            let Ok(mut messages) = client.subscribe(pattern).await else { return };
            while let Some(message) = messages.next().await {
                inbox.deliver(&message.subject, &message.payload);
            }
        });
        tasks.insert(key, Running(task));
    }
}
