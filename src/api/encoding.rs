//! The two ways in which an API server writes objects, and their names in headers and in the configuration.

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As JSON.
    Json,
    /// As protobuf, which kinds of a CustomResourceDefinition do not have.
    Protobuf,
}

impl Encoding {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }

    /// The encoding a content type names; whatever is not protobuf is taken for JSON.
    pub fn of(content_type: &str) -> Self {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(PROTOBUF) { Self::Protobuf } else { Self::Json }
    }

    /// The encoding to ask for by `clientConnection`: what it accepts counts, of several the first, and where that is left open, what it
    /// sends (`client-go/rest/request.go`).
    pub fn wanted(accepted: &str, sent: &str) -> Self {
        let accepted = if accepted.is_empty() { sent } else { accepted };
        Self::of(accepted.split(',').next().unwrap_or_default())
    }

    /// The header that asks for an object or a list. What an API server does not have as protobuf, it has as JSON.
    pub fn accept(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
        }
    }

    /// The header that asks for a watch.
    pub fn accept_watch(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch,application/json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_accepts_counts_before_what_it_sends() {
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(Encoding::wanted("", protobuf), Encoding::Protobuf);
        assert_eq!(Encoding::wanted("", "application/json"), Encoding::Json);
        assert_eq!(Encoding::wanted("application/json", protobuf), Encoding::Json);
        assert_eq!(Encoding::wanted(&format!("application/json,{protobuf}"), protobuf), Encoding::Json);
        assert_eq!(Encoding::wanted(&format!("{protobuf}; q=1, */*"), ""), Encoding::Protobuf);
        assert_eq!(Encoding::of("Application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf);
        assert_eq!(Encoding::of(""), Encoding::Json);
    }
}
