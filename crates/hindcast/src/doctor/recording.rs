//! What recording relies on, as the debug engine found it by trying.

use hindcast_core::debug::Capability;

use super::Check;

pub(super) fn checks(capabilities: &[Capability]) -> Vec<Check> {
    capabilities.iter().map(check).collect()
}

fn check(capability: &Capability) -> Check {
    let name = capability.name.clone();
    let note = capability.note.as_deref();
    if capability.works {
        let measured = note.map(|note| format!("tried: {note}"));
        return Check::ok(name, measured.unwrap_or_else(|| "tried".into()));
    }
    let lost = note.unwrap_or("it does not work here");
    let remedy = capability.remedy.as_deref();
    let remedy = remedy.unwrap_or("forward debugging works: launch with `record` false");
    Check::warn(name, format!("tried, and not so: {lost}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn what_does_not_work_is_told_with_what_is_lost_and_the_remedy() {
        let capability = |works, note: Option<&str>| Capability {
            name: "clocks stop".into(),
            works,
            note: note.map(str::to_owned),
            remedy: note.filter(|_| !works).map(|_| "wait".into()),
        };
        let [ok, measured, warned] = &*checks(&[
            capability(true, None),
            capability(true, Some("3 ms")),
            capability(false, Some("time goes on")),
        ]) else {
            panic!("a check each")
        };
        assert_eq!((ok.status, ok.detail.as_str()), (Status::Ok, "tried"));
        assert_eq!((measured.status, measured.detail.as_str()), (Status::Ok, "tried: 3 ms"));
        assert_eq!(
            (warned.status, warned.detail.as_str()),
            (Status::Warn, "tried, and not so: time goes on")
        );
        assert_eq!(warned.remedy.as_deref(), Some("wait"));
        assert!(checks(&[capability(false, None)])[0].remedy.is_some());
    }
}
