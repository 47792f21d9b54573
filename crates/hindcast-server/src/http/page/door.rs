//! Who is signed in: a random id in a cookie, and what it stands for in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hindcast_core::{Timestamp, identity::Caller};
use hindcast_services::Failure;
use http::{HeaderMap, HeaderValue, Request, Response, header, uri::Authority};
use sha2::{Digest, Sha256};

use super::{Body, Front, SESSIONS, frame, session::Watched};

/// Whoever does nothing for so long signs in again…
const IDLE: Duration = Duration::from_secs(60 * 60);
/// …and so does everybody after a day.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// So many are signed in at once, the oldest giving way…
const MOST: usize = 1024;
/// …and so many with one key.
const MOST_OF_KEY: usize = 32;

/// Everybody who is signed in, by the hash of what their cookie holds.
#[derive(Default, Clone)]
pub(super) struct Door(Arc<Mutex<HashMap<[u8; 32], Inside>>>);

struct Inside {
    caller: Caller,
    csrf: String,
    since: Timestamp,
    last: Timestamp,
    kept: Arc<Mutex<Kept>>,
}

/// What is kept of somebody between two pages.
#[derive(Default)]
struct Kept {
    notice: Option<Failure>,
    watched: Vec<(String, Arc<Watched>)>,
}

/// How many values are kept that somebody watches.
const MOST_WATCHED: usize = 6;

/// Somebody who is signed in.
pub(super) struct Entry {
    pub(super) caller: Caller,
    /// What every form of theirs carries.
    pub(super) csrf: String,
    id: [u8; 32],
    port: u16,
    kept: Arc<Mutex<Kept>>,
    door: Door,
}

impl Door {
    /// Signs somebody in, and gives them the cookie.
    pub(super) fn enter(&self, caller: Caller, port: u16, front: &Front) -> Response<Body> {
        let (Some(text), Some(csrf)) = (random(), random()) else {
            let failure = hindcast_services::Failure::new(
                hindcast_services::FailureKind::Internal,
                "the system gives no random bytes",
            );
            return frame::failed(http::StatusCode::INTERNAL_SERVER_ERROR, None, &failure);
        };
        let now = front.app.now();
        let inside = Inside { caller, csrf, since: now, last: now, kept: Arc::default() };
        self.insert(hash(&text), inside);
        with_cookie(frame::go_to(SESSIONS), &text, port, front.policy.is_encrypted)
    }

    fn insert(&self, id: [u8; 32], inside: Inside) {
        let mut all = self.lock();
        all.retain(|_, other| is_good(other, inside.last));
        let key = |one: &Inside| one.caller.key.as_ref().map(|key| key.id.clone());
        let ours = key(&inside);
        while all.values().filter(|other| key(other) == ours).count() >= MOST_OF_KEY {
            let oldest =
                all.iter().filter(|(_, other)| key(other) == ours).min_by_key(|(_, other)| other.last);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            all.remove(&oldest);
        }
        while all.len() >= MOST {
            let Some(oldest) = all.iter().min_by_key(|(_, other)| other.last).map(|(id, _)| *id) else {
                break;
            };
            all.remove(&oldest);
        }
        all.insert(id, inside);
    }

    /// Who shows this cookie. Over TLS only the name counts that others cannot set.
    pub(super) fn find(&self, headers: &HeaderMap, is_encrypted: bool, now: Timestamp) -> Option<Entry> {
        let port = port_in(headers);
        let wanted = cookie_name(port, is_encrypted);
        let id = cookies(headers).find(|(name, _)| *name == wanted)?.1;
        let id = hash(id);
        let mut all = self.lock();
        let inside = all.get_mut(&id)?;
        if !is_good(inside, now) {
            all.remove(&id);
            return None;
        }
        inside.last = now;
        let (caller, csrf, kept) = (inside.caller.clone(), inside.csrf.clone(), inside.kept.clone());
        Some(Entry { caller, csrf, id, port, kept, door: self.clone() })
    }

    /// Signs somebody out.
    pub(super) fn leave(&self, entry: &Entry) {
        self.lock().remove(&entry.id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Inside>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_good(inside: &Inside, now: Timestamp) -> bool {
    let within = |since: Timestamp, most: Duration| {
        now.duration_since(since).as_secs().unsigned_abs() < most.as_secs()
    };
    within(inside.last, IDLE) && within(inside.since, LONGEST)
}

impl Entry {
    /// Whether they have not signed out since, nor been away for too long.
    pub(super) fn is_still_inside(&self, now: Timestamp) -> bool {
        self.door.lock().get(&self.id).is_some_and(|inside| is_good(inside, now))
    }

    /// Something to tell on the next page.
    pub(super) fn leave_notice(&self, failure: Failure) {
        self.kept().notice = Some(failure);
    }

    pub(super) fn take_notice(&self) -> Option<Failure> {
        self.kept().notice.take()
    }

    /// What was found about a value that is watched: going back in time must not forget what came later.
    pub(super) fn watched(&self, name: &str) -> Option<Arc<Watched>> {
        self.kept().watched.iter().find(|(known, _)| known == name).map(|(_, watched)| watched.clone())
    }

    pub(super) fn keep_watched(&self, name: String, watched: Arc<Watched>) {
        let mut kept = self.kept();
        kept.watched.retain(|(known, _)| *known != name);
        kept.watched.push((name, watched));
        if kept.watched.len() > MOST_WATCHED {
            kept.watched.remove(0);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 256 random bits.
pub(super) fn random() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// The port that the browser sees: servers on several ports of one host share its cookies.
pub(super) fn port_of<B>(request: &Request<B>) -> u16 {
    port_in(request.headers())
}

fn port_in(headers: &HeaderMap) -> u16 {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    host.and_then(|host| host.port_u16()).unwrap_or(0)
}

/// Browsers keep others from setting a cookie whose name begins so.
fn cookie_name(port: u16, is_encrypted: bool) -> String {
    if is_encrypted { format!("__Host-hindcast-{port}") } else { format!("hindcast-{port}") }
}

fn with_cookie(mut response: Response<Body>, id: &str, port: u16, is_encrypted: bool) -> Response<Body> {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let (name, age) = (cookie_name(port, is_encrypted), LONGEST.as_secs());
    let cookie = format!("{name}={id}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}

/// Takes the cookie away again.
pub(super) fn without_cookie(
    mut response: Response<Body>,
    is_encrypted: bool,
    entry: &Entry,
) -> Response<Body> {
    let secure = if is_encrypted { "; Secure" } else { "" };
    let name = cookie_name(entry.port, is_encrypted);
    let cookie = format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
    response
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        Some((name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(second: i64) -> Inside {
        let at = Timestamp::from_second(second).unwrap();
        Inside { caller: Caller::local(), csrf: String::new(), since: at, last: at, kept: Arc::default() }
    }

    #[test]
    fn the_oldest_gives_way_where_a_key_is_signed_in_too_often() {
        let door = Door::default();
        for number in 0..u8::try_from(MOST_OF_KEY).unwrap() + 3 {
            door.insert([number; 32], inside(1_000_000 + i64::from(number)));
        }
        let all = door.lock();
        assert_eq!(all.len(), MOST_OF_KEY);
        assert!(!all.contains_key(&[2; 32]) && all.contains_key(&[3; 32]));
    }

    #[test]
    fn who_is_idle_or_has_been_there_for_long_signs_in_again() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let one = inside(1_000_000);
        assert!(is_good(&one, at(1_000_000 + 3599)));
        assert!(!is_good(&one, at(1_000_000 + 3600)));
        let busy = Inside { last: at(1_000_000 + 43_000), ..inside(1_000_000) };
        assert!(is_good(&busy, at(1_000_000 + 43_100)) && !is_good(&busy, at(1_000_000 + 43_200)));
    }

    #[test]
    fn a_cookie_that_others_can_set_opens_nothing_over_tls() {
        let door = Door::default();
        let now = Timestamp::from_second(1_000_000).unwrap();
        let of = |owner: &str| Inside { csrf: owner.into(), ..inside(1_000_000) };
        door.insert(hash("theirs"), of("theirs"));
        door.insert(hash("ours"), of("ours"));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:7443"));
        let both = "hindcast-7443=theirs; __Host-hindcast-7443=ours";
        headers.insert(header::COOKIE, HeaderValue::from_static(both));
        assert_eq!(door.find(&headers, true, now).unwrap().csrf, "ours");
        headers.insert(header::COOKIE, HeaderValue::from_static("hindcast-7443=theirs"));
        assert!(door.find(&headers, true, now).is_none());
        assert_eq!(door.find(&headers, false, now).unwrap().csrf, "theirs");
    }

    #[test]
    fn who_signed_out_is_not_inside_any_more() {
        let door = Door::default();
        let now = Timestamp::from_second(1_000_000).unwrap();
        door.insert(hash("one"), inside(1_000_000));
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("hindcast-0=one"));
        let entry = door.find(&headers, false, now).unwrap();
        assert!(entry.is_still_inside(now));
        assert!(!entry.is_still_inside(Timestamp::from_second(1_003_600).unwrap()));
        door.leave(&entry);
        assert!(!entry.is_still_inside(now));
    }

    #[test]
    fn the_cookie_of_this_port_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:7443"));
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; hindcast-1=x; __Host-hindcast-7443=y"));
        let found: Vec<_> = cookies(&headers).collect();
        assert_eq!(found, [("a", "b"), ("hindcast-1", "x"), ("__Host-hindcast-7443", "y")]);
        assert_eq!(port_in(&headers), 7443);
    }
}
