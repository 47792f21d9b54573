//! What keeps the programs of key holders from everybody else, found out by starting a worker in it.

use hindcast_core::debug::Layer;

use super::Check;

const NAME: &str = "confinement";

pub(super) fn check(tried: &Result<Vec<Layer>, String>) -> Check {
    match tried {
        Ok(layers) => {
            let names: Vec<_> = layers.iter().map(|layer| layer.name()).collect();
            let detail = format!("what keys of `hindcast serve` launch is kept in by: {}", names.join(", "));
            if layers.contains(&Layer::MountNamespace) {
                return Check::ok(NAME, detail);
            }
            Check::warn(NAME, detail, NAMESPACES)
        }
        Err(error) => Check::warn(
            NAME,
            format!(
                "tried, and not so: {error}; only keys with the scope `debug:unconfined` launch programs"
            ),
            NAMESPACES,
        ),
    }
}

const NAMESPACES: &str = "allow namespaces: `sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`; \
     in a container `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn less_than_namespaces_comes_with_a_remedy() {
        let namespaces = check(&Ok(vec![Layer::MountNamespace, Layer::Seccomp]));
        assert_eq!(namespaces.status, Status::Ok);
        assert!(namespaces.detail.ends_with("mount namespace, seccomp"), "{namespaces:?}");
        for less in [Ok(vec![Layer::Landlock]), Err("nothing".to_owned())] {
            let less = check(&less);
            assert_eq!(less.status, Status::Warn);
            assert!(less.remedy.is_some());
        }
    }
}
