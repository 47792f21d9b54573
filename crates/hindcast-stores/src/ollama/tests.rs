use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};

use hindcast_core::knowledge::Speaker;

use super::*;

/// A server that gives each request the next answer, as raw bytes, and then closes or, without an answer, stays silent.
fn server(answers: Vec<Option<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(socket.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            match answer {
                Some(answer) => socket.write_all(answer.as_bytes()).unwrap(),
                None => silent.push(socket),
            }
        }
        // Held open until whoever waits has given up.
        let mut end = [0];
        for mut socket in silent {
            let _ = socket.read(&mut end);
        }
    });
    address
}

fn ok(body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}"))
}

async fn ask(answer: Option<String>) -> (Result<Reply, ChatError>, Vec<String>) {
    let ollama = Ollama::at(&server(vec![answer])).unwrap().with_silence_limit(Duration::from_millis(300));
    let mut heard = Vec::new();
    let question = [Message { speaker: Speaker::User, text: "why?".into() }];
    let mut on_text = |piece: &str| {
        heard.push(piece.to_owned());
        true
    };
    let reply = ollama.chat("tiny", &question, 0, &mut on_text).await;
    (reply, heard)
}

#[tokio::test]
async fn an_answer_comes_piece_by_piece() {
    let body = concat!(
        "{\"message\":{\"role\":\"assistant\",\"content\":\"Be\"},\"done\":false}\n",
        "{\"message\":{\"content\":\"cause.\"},\"done\":false}\n",
        "{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":7,\"eval_count\":3}\n",
    );
    let (reply, heard) = ask(ok(body)).await;
    assert_eq!(reply.unwrap(), Reply { text: "Because.".into(), tokens: 10 });
    assert_eq!(heard, ["Be", "cause."]);
}

#[tokio::test]
async fn half_answers_refusals_and_silence_are_told_apart() {
    let half = "{\"message\":{\"content\":\"Be\"},\"done\":false}\n";
    assert!(matches!(ask(ok(half)).await.0, Err(ChatError::BrokeOff(_))));
    let garbled = "{\"message\":\n";
    assert!(matches!(ask(ok(garbled)).await.0, Err(ChatError::BrokeOff(_))));
    let fault = "{\"error\":\"out of memory\"}\n";
    assert_eq!(ask(ok(fault)).await.0, Err(ChatError::BrokeOff("out of memory".into())));
    let refusal = "HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n{\"error\":\"model 'tiny' not found\"}";
    assert_eq!(ask(Some(refusal.into())).await.0, Err(ChatError::Refused("model 'tiny' not found".into())));
    assert!(matches!(ask(None).await.0, Err(ChatError::TimedOut { .. })));
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let told = Ollama::at(&address).unwrap().models().await.unwrap_err();
    assert!(matches!(&told, ChatError::Unreachable { address: told, .. } if *told == address), "{told}");
    assert!(Ollama::at("not an address").is_err());
}

#[tokio::test]
async fn models_are_listed_with_what_they_can_do() {
    let tags = "{\"models\":[{\"name\":\"llama3.1:8b\",\"size\":7,\"digest\":\"a\"},{\"name\":\"nomic-embed-text:latest\",\"size\":2,\"digest\":\"b\"}]}";
    let answers = vec![
        ok(tags),
        ok("{\"capabilities\":[\"completion\",\"tools\"],\"model_info\":{}}"),
        ok("{\"capabilities\":[\"embedding\"],\"model_info\":{\"nomic-bert.embedding_length\":768}}"),
    ];
    let models = Ollama::at(&server(answers)).unwrap().models().await.unwrap();
    assert!(models[0].calls_tools && !models[0].embeds);
    assert_eq!((models[1].embeds, models[1].dimension), (true, Some(768)));
}
