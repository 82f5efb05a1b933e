//! The CEL functions `url`, `isURL` and `get…`, such as `getHost`. Upstream:
//! `apiserver/pkg/cel/library/urls.go`.

use std::sync::Arc;

use super::Implementation;
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, Map, Url};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "url" => |_, args| match args {
            [Value::String(text)] => match Url::parse(text) {
                Ok(url) => Ok(Value::Url(Arc::new(url))),
                Err(reason) => {
                    Err(Error::new(format!("URL parse error during conversion from string: {reason}")))
                }
            },
            _ => Err(Error::NO_OVERLOAD),
        },
        "isURL" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::check(text).is_ok())),
            _ => Err(Error::NO_OVERLOAD),
        },
        "getScheme" => |_, args| of(args).map(|url| Value::text(url.scheme.as_str())),
        "getHost" => |_, args| of(args).map(|url| Value::text(url.host.as_str())),
        "getHostname" => |_, args| of(args).map(|url| Value::text(url.hostname())),
        "getPort" => |_, args| of(args).map(|url| Value::text(url.port())),
        "getEscapedPath" => |_, args| of(args).map(|url| Value::text(url.escaped_path())),
        "getQuery" => |_, args| {
            let parameters = of(args)?.parameters().into_iter();
            let list =
                |values: Vec<String>| Value::List(List::new(values.into_iter().map(Value::text).collect()));
            let mut map = Map::default();
            for (key, values) in parameters {
                map.set(&Value::text(key), list(values))?;
            }
            Ok(Value::Map(map))
        },
        _ => return None,
    })
}

fn of(args: &[Value]) -> Result<&Url> {
    match args {
        [Value::Url(url)] => Ok(url),
        _ => Err(Error::NO_OVERLOAD),
    }
}
